import os, random, subprocess, sys

places, notes, edits = sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
random.seed(7)
vocabulary = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(5000)]


def words(size):
    text = ""
    while len(text) < size:
        text += random.choice(vocabulary) + random.choice("     \n")
    return text


def git(*args):
    subprocess.run(["git", "-C", places[1], "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", *args],
                   check=True, stdout=subprocess.DEVNULL)


def write(i):
    for place in places:
        with open(os.path.join(place, "note%03d.md" % i), "w") as f:
            f.write(texts[i])


git("init", "-q")
texts = [words(random.randint(1000, 7000)) for _ in range(notes)]
for i in range(notes):
    write(i)
git("add", ".")
git("commit", "-qm", "notes")
for _ in range(edits):
    i = random.randrange(notes)
    at = random.randrange(len(texts[i]))
    texts[i] = texts[i][:at] + words(random.randint(1, 30)) + texts[i][at + random.randrange(20):]
    write(i)
    git("commit", "-qam", "edit")
git("gc", "-q", "--aggressive", "--prune=now")
