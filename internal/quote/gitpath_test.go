package quote

import "testing"

func TestGitPath(t *testing.T) {
	for _, plain := range []string{
		".github/copilot-instructions.md", ".gitlab-ci.yml", ".gitbook.yaml", ".git-blame-ignore-revs", ".gitignore", ".gitkeep", ".gitea/x", ".mailmap.example",
		"git~notes.md", "git", "gitmodules", "a.git", "x%2Egit", "%2Egithub", ".gitmodules.md", "gi7eba", "gi7eba~",
	} {
		if got := GitPath("/d/" + plain); got != "d/"+plain {
			t.Errorf("%s is %s", plain, got)
		}
		if HasGits("/d/" + plain) {
			t.Errorf("git takes %s for its own", plain)
		}
	}
	for own, want := range map[string]string{
		".git": "%2Egit", ".GIT": "%2EGIT", ".git. ": "%2Egit. ", ".g\u200dit": "%2Eg\u200dit", ".git::$INDEX_ALLOCATION": "%2Egit::$INDEX_ALLOCATION", "git~1": "%67it~1", "GIT~1": "%47IT~1",
		".gitmodules": "%2Egitmodules", "GITMOD~1": "%47ITMOD~1", "gi7eba~1": "%67i7eba~1", "gi7e~123": "%67i7e~123", ".gitattributes ": "%2Egitattributes ", "gitatt~4": "%67itatt~4", "gi7d29~1": "%67i7d29~1",
		".MailMap": "%2EMailMap", "mailma~1": "%6Dailma~1", "maba30~9": "%6Daba30~9", "%2Egit": "%252Egit", "%252Egit": "%25252Egit",
		`a\.git\b`: `a\%2Egit\b`,
	} {
		if got := GitPath("/d/" + own + "/x"); got != "d/"+want+"/x" {
			t.Errorf("%s is %s, want %s", own, got, want)
		}
		if HasGits("/d/"+own+"/x") != (want[:3] != "%25") {
			t.Errorf("git takes %s for its own: %t", own, HasGits("/d/"+own))
		}
	}
}
