"""Tests of mneme_memory with the program that MNEME_PROGRAM names, and with programs that misbehave.

Run them with `python3 -m unittest` in this directory; without MNEME_PROGRAM it is mneme on the PATH.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from mneme_memory import MemoryProvider, MnemeMemory

PROGRAM = os.environ.get("MNEME_PROGRAM", "mneme")


class WithStore(unittest.TestCase):
    """Tests with a store of their own."""

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.url = "file://" + os.path.join(self.dir, "stores")
        self.mneme("store", "create", "notes")

    def mneme(self, *arguments, text=None):
        run = subprocess.run([PROGRAM, "--url", self.url, *arguments], input=text, capture_output=True, text=True, check=True)
        return run.stdout

    def memory(self, stores=("notes",), **options):
        memory = MnemeMemory(stores, url=self.url, program=PROGRAM, **{"timeout": 20, **options})
        self.addCleanup(memory.close)
        return memory

    def commits(self):
        return self.mneme("log", "notes", "--json").count('"operation":"created","path":"/threads/')

    def good(self, answer):
        self.assertFalse(answer["diagnostics"]["degraded"], answer)
        return answer


def turn(number, text="We ship on Friday."):
    return {"thread_id": "t1", "turn_id": str(number), "entries": [{"role": "user", "text": text}]}


class TestMemory(WithStore):
    def test_recall_remember_health(self):
        self.mneme("store", "create", "handbook")
        self.mneme("write", "handbook:/ships.md", text="A ship is a vessel.\n")
        with self.memory(["notes", "handbook:ro"], session="s1") as memory:
            self.assertIsInstance(memory, MemoryProvider)
            self.assertEqual(self.good(memory.recall({}))["items"][0]["path"], "/ships.md")
            batch = {**turn(1), "agent_id": "a1", "sender": None, "meta": {"k": [1.0, None]}, "limits": {"max_items": None}}
            answer = self.good(memory.remember(batch))
            self.assertEqual(answer["written"], 1)
            entry = answer["diagnostics"]["receipt"]["entries"][0]
            self.assertEqual((entry["status"], entry["path"], entry["store"]), ("written", "/threads/t1/1.md", "notes"))
            found = self.good(memory.recall({"query_text": "When do we ship?", "limits": {"max_items": 2}}))
            self.assertEqual({item["store"] for item in found["items"]}, {"notes", "handbook"})
            self.assertIn(entry["version"], [item["version"] for item in found["items"]])
            self.assertEqual(set(found), {"items", "facts", "summaries", "provider", "diagnostics"})
            health = self.good(memory.health())
            self.assertTrue(health["ok"])
            self.assertEqual([store["store"] for store in health["stores"]], ["notes", "handbook"])
        text = self.mneme("cat", "notes:/threads/t1/1.md")
        self.assertIn('agent_id: "a1"', text)
        self.assertNotIn("sender", text)
        self.assertIn('"session_id":"s1"', self.mneme("log", "notes", "--json"))
        self.assertTrue(memory.recall({})["diagnostics"]["degraded"])  # it is closed

    def test_same_turn_of_two_processes(self):
        answers = []
        memories = [self.memory(session="s%d" % i) for i in range(3)]
        threads = [threading.Thread(target=lambda m=m: answers.append(m.remember(turn(1)))) for m in memories for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(self.good(answer)["written"] for answer in answers), 1)
        versions = {answer["diagnostics"]["receipt"]["entries"][0]["version"] for answer in answers}
        self.assertEqual((len(versions), self.commits()), (1, 1))

    def test_process_dies(self):
        memory = self.memory(session="s1")
        self.good(memory.remember(turn(1)))
        memory._process._popen.kill()  # the next call begins another
        self.assertEqual(self.good(memory.remember(turn(1)))["diagnostics"]["receipt"]["entries"][0]["status"], "already")
        for number in range(2, 5):  # the request is on its way, or the answer
            killer = threading.Timer(0.003 * (number - 1), memory._process._popen.kill)
            killer.start()
            memory.remember(turn(number))
            killer.join()
            self.good(memory.remember(turn(number)))
        self.assertEqual(self.commits(), 4)

    def test_hostile_requests(self):
        memory = self.memory()
        deep = []
        for _ in range(100_000):
            deep = [deep]
        for request in (None, 7, "x", [], {"x": 1}, {"query_text": 7}, {"query_text": "\ud800"}, {"meta": {"k": float("nan")}}, {"meta": {"k": deep}}, {"meta": {"k": object()}}, {1: 2}):
            answer = memory.recall(request)
            self.assertEqual((answer["items"], answer["diagnostics"]["degraded"]), ([], True))
        self.assertEqual(memory.recall({"meta": deep})["diagnostics"]["reasons"], ["invalid: the request is nested too deeply"])
        for batch in (None, {}, {"entries": [None]}, {"thread_id": "t", "turn_id": "1", "entries": [{}]}, {"thread_id": "t", "turn_id": "1", "entries": [{"text": 1}]}):
            answer = memory.remember(batch)
            self.assertEqual((answer["written"], answer["diagnostics"]["degraded"], answer["diagnostics"]["retry"]), (0, True, "never"), batch)
            self.assertEqual(answer["diagnostics"]["receipt"]["entries"], [])
        path = self.good(memory.remember({**turn(1), "thread_id": "../../etc", "turn_id": "\x00/" * 1000}))["diagnostics"]["receipt"]["entries"][0]["path"]
        self.assertRegex(path, r"^/threads/[^/.]+/[^/]+\.md$")
        self.good(memory.recall({"query_text": "ship"}))

    def test_large_request(self):
        memory = self.memory()
        text = "word " * 1_800_000
        answer = memory.remember(turn(1, text))
        self.assertIn("too_large", answer["diagnostics"]["reasons"][0])
        self.assertEqual((answer["written"], answer["diagnostics"]["receipt"]["entries"]), (0, []))
        self.good(memory.recall({"query_text": "word"}))


class TestTrouble(unittest.TestCase):
    """Programs that are not mneme, or not well."""

    def program(self, script):
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        path = os.path.join(directory, "mneme")
        with open(path, "w") as f:
            f.write("#!%s\nimport json, os, sys, time\n%s\n" % (sys.executable, script))
        os.chmod(path, stat.S_IRWXU)
        return path

    def degraded(self, script, reason, timeout=0.1, patience=3, request=None, calls=1):
        memory = MnemeMemory("notes", program=self.program(script) if script else "/nonexistent/mneme", timeout=timeout)
        self.addCleanup(memory.close)
        for call in (memory.recall, memory.remember, lambda _: memory.health())[:calls]:
            began = time.monotonic()
            answer = call(request or {})
            self.assertLess(time.monotonic() - began, timeout + patience)
            self.assertTrue(answer["diagnostics"]["degraded"])
            self.assertIn(reason, answer["diagnostics"]["reasons"][0])
            json.dumps(answer)
        return memory

    def test_no_program(self):
        self.degraded(None, "died: cannot start /nonexistent/mneme: No such file or directory", calls=3)

    def test_dies(self):
        self.degraded("sys.stderr.write('mneme: no such store\\n'); sys.exit(3)", "died: mneme: no such store", timeout=20)

    def test_silent(self):
        self.degraded("time.sleep(60)", "deadline: mneme did not answer")

    def test_does_not_read(self):
        self.degraded("time.sleep(60)", "deadline: mneme did not answer", request={"query_text": "x" * 1_000_000})

    def test_garbage(self):
        self.degraded("for line in sys.stdin: print('garbage', flush=True)", "broken: what it answers is no answer of mneme", timeout=20)
        self.degraded("print('garbage', flush=True)", "died: mneme has ended", timeout=20)

    def test_other_ids(self):
        memory = self.degraded("for line in sys.stdin: print(json.dumps({'id': -1, 'result': {}}), flush=True)", "deadline")
        self.assertIsNone(memory._process)

    def test_late_answer_is_not_the_next_one(self):
        memory = MnemeMemory("notes", program=self.program(
            "for line in sys.stdin:\n    r = json.loads(line)\n    print(json.dumps({'id': r['id'] - 1, 'result': {'diagnostics': {'late': 1}}}), flush=True)\n    print(json.dumps({'id': r['id'], 'result': {'diagnostics': {'right': 1}}}), flush=True)"), timeout=20)
        self.addCleanup(memory.close)
        for _ in range(3):
            self.assertEqual(memory.recall({})["diagnostics"], {"right": 1})

    def test_no_process_is_left(self):
        started = []

        def start(*arguments, **options):
            started.append(popen(*arguments, **options))
            return started[-1]

        popen = subprocess.Popen
        with unittest.mock.patch("subprocess.Popen", start):
            self.degraded("time.sleep(60)", "deadline", calls=3).close()
        self.assertEqual(len(started), 3)
        for process in started:
            self.assertIsNotNone(process.returncode)


if __name__ == "__main__":
    unittest.main()
