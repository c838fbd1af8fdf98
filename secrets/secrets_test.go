package secrets

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	stdbase64 "encoding/base64"
)

// maker makes credentials that nobody has issued. Their prefixes come in parts, so that no
// scanner takes this file for one that holds any.
type maker struct{ *rand.Rand }

func newMaker() maker { return maker{rand.New(rand.NewPCG(1, 2))} }

const (
	az     = "abcdefghijklmnopqrstuvwxyz"
	hexes  = "0123456789abcdef"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum  = "0123456789" + uppers + az
)

// of returns n characters of an alphabet.
func (m maker) of(alphabet string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[m.IntN(len(alphabet))]
	}
	return string(out)
}

// github returns a body with its checksum.
func (m maker) github(n int) string {
	random := m.of(alnum, n-6)
	crc, sum := crc32.ChecksumIEEE([]byte(random)), make([]byte, 6)
	for i := 5; i >= 0; i-- {
		sum[i] = base62Digits[crc%62]
		crc /= 62
	}
	return random + string(sum)
}

func (m maker) armor(label, newline string) string {
	text := "-----" + "BEGIN " + label + "-----" + newline
	for range 4 {
		text += m.of(alnum+"+/", 64) + newline
	}
	return text + "-----" + "END " + label + "-----" + newline
}

func encoded(text string) string { return stdbase64.RawURLEncoding.EncodeToString([]byte(text)) }

type shape struct{ rule, text string }

// shapes returns one credential of each well-known shape.
func (m maker) shapes() []shape {
	url := alnum + "-_"
	var all []shape
	add := func(rule string, parts ...string) { all = append(all, shape{rule, strings.Join(parts, "")}) }
	for _, kind := range []string{"p", "o", "u", "s"} {
		add("github-token", "gh", kind, "_", m.github(36))
	}
	add("github-token", "gh", "r_", m.github(76))
	add("github-fine-grained-token", "github", "_pat_", m.of(alnum, 22), "_", m.of(alnum, 59))
	add("gitlab-token", "gl", "pat-", m.of(url, 20))
	add("gitlab-token", "gl", "rt-", m.of(url, 20))
	add("npm-token", "np", "m_", m.of(alnum, 36))
	add("pypi-token", "py", "pi-AgE", m.of(url, 160))
	add("rubygems-key", "ruby", "gems_", m.of(hexes, 48))
	add("crates-io-token", "ci", "o", m.of(alnum, 31)+"7")
	add("docker-hub-token", "dckr", "_pat_", m.of(url, 27))
	add("circleci-token", "CCI", "PAT_", m.of(alnum, 22), "_", m.of(hexes, 40))
	add("aws-access-key-id", "AK", "IA", m.of(uppers+"234567", 16))
	add("aws-access-key-id", "AS", "IA", m.of(uppers+"234567", 16))
	add("aws-secret-access-key", "aws_secret", "_access_key = ", m.of(alnum+"+/", 40))
	add("aws-secret-access-key", "SecretAccess", `Key": "`, m.of(alnum+"+/", 40))
	for _, name := range []string{`SecretAccessKey>`, `secretAccessKey: "`, `secretAccessKey":"`, `AWS_SECRET_KEY=`, `aws_secret_access_key                = `} {
		add("aws-secret-access-key", name, m.of(alnum+"+/", 40))
	}
	add("aws-secret-access-key", "secret", `_key = "`, m.of(alnum+"+/", 39), "7")
	add("aws-bedrock-key", "AB", "SK", m.of(alnum, 128))
	add("azure-storage-key", "Account", `Key": "`, m.of(alnum+"+/", 86), "==")
	add("azure-shared-access-key", "SharedAccess", "Key=", m.of(alnum+"+/", 43), "=")
	add("azure-shared-access-signature", "si", "g=", m.of(alnum, 20), "%2B", m.of(alnum, 20), "%2f", "g%3D")
	add("azure-client-secret", m.of(alnum, 3), "8Q", "~", m.of(url+"~.", 33), "z")
	add("azure-devops-token", m.of(alnum, 76), "AZ", "DO", m.of(alnum, 4))
	add("terraform-token", m.of(alnum, 14), ".atlas", "v1.", m.of(url, 67))
	add("google-hmac-key", "GOO", "G1E", m.of(uppers+"234567", 55))
	add("google-hmac-key", "GOO", "G1E", m.of(uppers+"234567", 18))
	claims := encoded(`{"iss":"42","iat":1700000001}`)
	add("github-token", "gh", "s_1234567_", encoded(`{"alg":"ES256","typ":"JWT"}`), ".", claims, ".", m.of(url, 86))
	for _, kind := range []string{"pat-", "cbt-64_", "ft-", "imt-", "soat-"} {
		add("gitlab-token", "gl", kind, m.of(url, 20))
	}
	add("gitlab-token", "GR", "1348941", m.of(url, 20))
	add("slack-token", "xo", "xb-", m.of("123456789", 12), "-", m.of(alnum, 24))
	add("slack-token", "xo", "xc-", m.of("123456789", 12), "-", m.of("123456789", 12), "-", m.of("123456789", 12), "-", m.of(hexes, 64))
	add("slack-token", "xo", "xd-", m.of(alnum, 60), "%2B", m.of(alnum, 60), "%3D")
	add("slack-webhook", "https://hooks.", "slack.com/workflows/T", m.of(uppers, 8), "/A", m.of(uppers, 10), "/", m.of("123456789", 18), "/", m.of(alnum, 24))
	key := stdbase64.StdEncoding.EncodeToString([]byte(m.armor("RSA PRIVATE KEY", "\n")))
	add("private-key", key)
	add("private-key", key[:76], "\n", key[76:152], "\n", key[152:])
	add("google-api-key", "AI", "zaSyA", m.of(url, 32))
	add("google-oauth-secret", "GOC", "SPX-", m.of(url, 28))
	add("google-oauth-token", "ya", "29.a0", m.of(url, 160))
	add("azure-storage-key", "Account", "Key=", m.of(alnum+"+/", 86), "==")
	add("digitalocean-token", "do", "p_v1_", m.of(hexes, 64))
	add("heroku-key", "HR", "KU-AA", m.of(url, 58))
	add("cloudflare-origin-key", "v1", ".0-", m.of(hexes, 24), "-", m.of(hexes, 146))
	add("netlify-token", "nf", "p_", m.of(alnum, 36))
	add("hashicorp-vault-token", "hv", "s.CAES", m.of(url, 90))
	add("pulumi-token", "pu", "l-", m.of(hexes, 40))
	add("tailscale-key", "ts", "key-auth-k", m.of(alnum, 9), "CNTRL-", m.of(alnum, 32))
	add("planetscale-token", "psc", "ale_tkn_", m.of(url, 43))
	add("doppler-token", "d", "p.pt.", m.of(alnum, 43))
	add("databricks-token", "da", "pi", m.of(hexes, 32))
	add("supabase-key", "sb", "p_", m.of(hexes, 40))
	add("mneme-key", "mne", "me_", m.of(hexes, 16), "_", m.of(hexes, 48))
	add("grafana-token", "gl", "sa_", m.of(alnum, 32), "_", m.of(hexes, 8))
	add("new-relic-key", "NR", "AK-", m.of(uppers+"0123456789", 27))
	add("sentry-token", "sntr", "yu_", m.of(hexes, 64))
	add("dynatrace-token", "dt0", "c01.", m.of(uppers+"0123456789", 24), ".", m.of(uppers+"0123456789", 64))
	add("anthropic-key", "sk-", "ant-api03-", m.of(url, 93), "AA")
	add("openai-key", "sk", "-", m.of(alnum, 20), "T3Blbk", "FJ", m.of(alnum, 20))
	add("openai-key", "sk", "-proj-", m.of(url, 74), "T3Blbk", "FJ", m.of(url, 74))
	add("openrouter-key", "sk", "-or-v1-", m.of(hexes, 64))
	add("hugging-face-token", "h", "f_", m.of(az+uppers, 34))
	add("replicate-token", "r", "8_", m.of(alnum, 37))
	add("groq-key", "gs", "k_", m.of(alnum, 52))
	add("perplexity-key", "pp", "lx-", m.of(alnum, 48))
	add("slack-token", "xo", "xb-", m.of("123456789", 12), "-", m.of("123456789", 13), "-", m.of(alnum, 24))
	add("slack-token", "xo", "xp-", m.of("123456789", 12), "-", m.of("123456789", 12), "-", m.of("123456789", 12), "-", m.of(hexes, 32))
	add("slack-app-token", "xa", "pp-1-A", m.of(uppers+"0123456789", 10), "-", m.of("123456789", 13), "-", m.of(hexes, 64))
	add("slack-webhook", "https://hooks.", "slack.com/services/T", m.of(uppers+"0123456789", 8), "/B", m.of(uppers+"0123456789", 10), "/", m.of(alnum, 24))
	add("discord-webhook", "https://discord.", "com/api/webhooks/", m.of("123456789", 18), "/", m.of(url, 68))
	add("discord-bot-token", encoded(m.of("123456789", 18)), ".", m.of(alnum, 6), ".", m.of(url, 38))
	add("telegram-bot-token", m.of("123456789", 10), ":A", "A", m.of(url, 33))
	add("atlassian-token", "ATA", "TT3x", m.of(url, 185))
	add("linear-key", "lin", "_api_", m.of(alnum, 40))
	add("notion-token", "nt", "n_", m.of(alnum, 46))
	add("figma-token", "fi", "gd_", m.of(url, 40))
	add("airtable-token", "pa", "t", m.of(alnum, 14), ".", m.of(hexes, 64))
	add("postman-key", "PM", "AK-", m.of(hexes, 24), "-", m.of(hexes, 34))
	add("1password-token", "op", "s_eyJ", m.of(alnum, 400))
	add("stripe-key", "sk", "_live_", m.of(alnum, 24))
	add("stripe-key", "rk", "_live_", m.of(alnum, 99))
	add("stripe-webhook-secret", "wh", "sec_", m.of(alnum, 32))
	add("square-token", "sq0", "csp-", m.of(url, 43))
	add("shopify-token", "sh", "pat_", m.of(hexes, 32))
	add("twilio-key", "S", "K", m.of(hexes, 32))
	add("sendgrid-key", "S", "G.", m.of(url, 22), ".", m.of(url, 43))
	add("brevo-key", "xkey", "sib-", m.of(hexes, 64), "-", m.of(alnum, 16))
	add("age-secret-key", "AGE-SECRET", "-KEY-1", m.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
	add("json-web-token", encoded(`{"alg":"HS256","typ":"JWT"}`), ".", encoded(`{"sub":"ada","iat":1700000001}`), ".", m.of(url, 43))
	for _, label := range []string{"RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY"} {
		add("private-key", m.armor(label, "\n"))
	}
	add("private-key", m.armor("PRIVATE KEY", `\n`)) // as in the JSON of an account
	add("pgp-private-key", m.armor("PGP PRIVATE KEY "+"BLOCK", "\n"))
	return all
}

// TestShapes holds that a credential of each well-known shape is found, once, in its line,
// however it stands there, and that what is shown of it is not it.
func TestShapes(t *testing.T) {
	rules := map[string]bool{}
	for _, s := range newMaker().shapes() {
		rules[s.rule] = true
		for _, frame := range []string{"%s", "a\n\nexport TOKEN=%s\n", "\"%s\"", "see `%s`, and (%[1]q)", `{"text":"first\n%s\nthird"}`, "it is %s.", "<%s>", "k: %s # mine",
			`{"text":"\u003c%s\u003e"}`, "curl https://x/?u=a%%3D%s", `'\x3d%s'`, `\b%s\b`, "\x1b[32m%s\x1b[0m", "\x1b(B\x1b[m%s\x1b[m",
			`{"log":"\u001b[1;32m%s\u001b[0m"}`, `echo -e '\033[32m%s'`, `'\e[0m%s'`, "^[[32m%s^[[0m", "?log=%%1B%%5B32m%s"} {
			text := []byte(fmt.Sprintf(frame, s.text))
			found := Find(text, 10)
			if len(found) == 0 || found[0].Rule != s.rule {
				t.Errorf("%s: found %+v in\n%s", s.rule, found, text)
				continue
			}
			f := found[0]
			value := string(f.Value(text))
			if !strings.HasPrefix(s.text, value) || len(value) < len(s.text)*3/4 {
				t.Errorf("%s: the value is %q", s.rule, value)
			}
			if want := 1 + strings.Count(string(text[:f.Offset]), "\n"); f.Line != want {
				t.Errorf("%s: line %d, want %d", s.rule, f.Line, want)
			}
			if shown := strings.TrimSuffix(f.Masked, "…"); len(shown) > 4 || !strings.HasPrefix(s.text, shown) {
				t.Errorf("%s: it is shown as %q", s.rule, f.Masked)
			}
		}
	}
	if len(rules) < 40 {
		t.Errorf("%d rules are tried, want 40", len(rules))
	}
}

// TestNone holds that what documentation and programs write in the place of credentials, and
// what only looks like one from afar, is none.
func TestNone(t *testing.T) {
	m := newMaker()
	texts := []string{
		"", "-", "sk-", "AKIA", "eyJ", "-----" + "BEGIN PRIVATE KEY-----",
		"gh" + "p_" + strings.Repeat("x", 36),
		"gh" + "p_" + m.of(alnum, 36), // its checksum is another
		"AK" + "IAIOSFODNN7EXAMPLE",
		"aws_secret" + "_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"aws_secret_access_key is what you need, and so is a pencil",
		"sk-" + "ant-api03-" + strings.Repeat("your-key-", 11),
		"sk" + "_live_abcdefghijklmnopqrstuvwxyz",
		"sk" + "_live_short", "sk" + "_test_" + m.of(alnum, 24),
		"npm_config_registry npm_package_version_and_more_of_it",
		"task-" + m.of(alnum, 60), "risk-" + "proj-" + m.of(alnum, 48),
		"-----" + "BEGIN RSA PRIVATE KEY-----\n(the key itself, in lines of base64)\n-----END RSA PRIVATE KEY-----",
		"a file that begins with -----" + "BEGIN PRIVATE KEY----- is a key, and it goes on with prose for a long time",
		m.armor("PUBLIC KEY", "\n"), m.armor("CERTIFICATE", "\n"), m.armor("RSA TESTING KEY", "\n"),
		encoded(`{"alg":"HS256","typ":"JWT"}`) + "." + encoded(`{"sub":"1234567890","name":"John Doe","iat":1516239022}`) + "." + m.of(alnum, 43),
		"secret_key = " + m.of(hexes, 40), "sig=" + m.of(alnum, 40), "?sig=" + m.of(alnum, 64), "SharedAccessKeyName=" + m.of(alnum, 43) + "=",
		"8Q" + "~" + m.of(alnum, 34), "ab.atlas" + "v1." + m.of(alnum, 67), m.of(alnum, 20) + "AZ" + "DO" + m.of(alnum, 4), "AZ" + "DOabcd",
		stdbase64.StdEncoding.EncodeToString([]byte(m.armor("CERTIFICATE", "\n"))), "gh" + "s_1234567_" + m.of(alnum, 80),
		"eyJhbGciOi.eyJzdWIi.short", "2026-11-26T10:00:00Z 1234567890:AAbutshort", "NATO.is.not", m.of(hexes, 40), m.of(hexes, 64), "sha256:" + m.of(hexes, 64),
		"password: hunter2, secret, token, api_key", "https://user:pass@example.com/", "pattern.matching", "SG.1.2", "dp.pt.x",
	}
	for _, text := range texts {
		if found := Find([]byte(text), 10); len(found) > 0 {
			t.Errorf("%q has %+v", text, found)
		}
	}
}

// TestMany holds that Find ends where it is told to, and that several are told apart.
func TestMany(t *testing.T) {
	all := newMaker().shapes()
	var text []byte
	for _, s := range all {
		text = append(append(text, s.text...), "\n\n"...)
	}
	found := Find(text, 1000)
	if len(found) != len(all) {
		t.Errorf("%d are found, want %d", len(found), len(all))
	}
	for i := range min(len(found), len(all)) {
		if found[i].Rule != all[i].rule {
			t.Fatalf("the %d. is %+v, want %s", i+1, found[i], all[i].rule)
		}
	}
	if few := Find(text, 3); len(few) != 3 {
		t.Errorf("%d are found, want 3", len(few))
	}
}

// keysOfGo are the files of the Go sources that hold a private key, whole and in its usual
// shape.
var keysOfGo = map[string]bool{
	"crypto/x509/platform_root_key.pem": true, "crypto/tls/example_test.go": true, "crypto/tls/testdata/example-key.pem": true,
}

// TestGoSources holds that nothing in the sources of Go is taken for a credential, but what is
// one. MNEME_SECRETS_TREE=all looks at all of them, which takes longer.
func TestGoSources(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	parts := []string{"crypto", "encoding", "net"}
	if os.Getenv("MNEME_SECRETS_TREE") == "all" {
		parts = []string{"."}
	}
	files, size := 0, 0
	for _, part := range parts {
		err := filepath.WalkDir(filepath.Join(root, part), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files++
			size += len(data)
			rel, err := filepath.Rel(root, name)
			for _, f := range Find(data, 100) {
				if !keysOfGo[filepath.ToSlash(rel)] || f.Rule != "private-key" {
					t.Errorf("%s:%d: %s: %.60q", rel, f.Line, f.Rule, f.Value(data))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files, %d bytes", files, size)
}

// FuzzFind holds that every finding lies in the text, behind the one before.
func FuzzFind(f *testing.F) {
	for _, s := range newMaker().shapes() {
		f.Add([]byte("a " + s.text + "\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		at := 0
		for _, found := range Find(data, 100) {
			if found.Offset < at || found.Length <= 0 || found.Offset+found.Length > len(data) {
				t.Fatalf("%+v in %d bytes, behind %d", found, len(data), at)
			}
			at = found.Offset + found.Length
			if want := 1 + bytes.Count(data[:found.Offset], newline); found.Line != want {
				t.Fatalf("line %d, want %d", found.Line, want)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	for name, text := range map[string][]byte{
		"prose":   bytes.Repeat([]byte("Some things that we learned about the build, as notes of 2026-11-20: keep it short and simple.\n"), 1100)[:100<<10],
		"random":  []byte(newMaker().of(alnum+"+/-_.  \n", 100<<10)),
		"json":    bytes.Repeat([]byte(`{"path":"/src/main.go","line":12,"text":"package main\n"},`), 2000)[:100<<10],
		"escapes": bytes.Repeat([]byte(`{"text":"x\ny\tz\r\nsome text\n\n","n":1},`), 3000)[:100<<10],
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Find(text, 100)
			}
		})
	}
}
