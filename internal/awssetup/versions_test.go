package awssetup_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/internal/awssetup"
)

const (
	blocked = `<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>` +
		`<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>`
	versioned = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`
)

func rules(prefix string) string {
	return `<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><Prefix>` + prefix + `</Prefix></Filter>` +
		`<NoncurrentVersionExpiration><NoncurrentDays>90</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>`
}

// TestProtection holds that a new bucket keeps what is deleted for 30 days, that
// the table cannot be deleted, and that a bucket that was there is only judged.
func TestProtection(t *testing.T) {
	const versioning, expiry = "bucket versioning", "expiry of noncurrent versions after 30 days"
	for _, test := range []struct {
		name    string
		aws     fakeAWS
		made    []string          // of the bucket
		updates int               // of the table
		want    map[string]string // outcomes
		note    string            // a command in one of the notes
	}{
		{
			name: "new", made: []string{"", "publicAccessBlock", "lifecycle", "versioning"}, updates: 1,
			want: map[string]string{"deletion protection": "made", versioning: "made", expiry: "made"},
		},
		{
			name: "new, on a server that expires nothing", aws: fakeAWS{lacks: "lifecycle", protected: true},
			made: []string{"", "publicAccessBlock", "lifecycle"},
			want: map[string]string{"deletion protection": "was there", versioning: "not supported by this server"},
		},
		{
			name: "new, by one who may not set expiry", aws: fakeAWS{forbids: "lifecycle", protected: true},
			made: []string{"", "publicAccessBlock", "lifecycle"},
			want: map[string]string{"deletion protection": "was there", expiry: "differs"},
		},
		{
			name: "there, without anything", aws: fakeAWS{owner: own, settings: map[string]string{"publicAccessBlock": blocked}}, updates: 1,
			want: map[string]string{"deletion protection": "made", versioning: "differs"}, note: "aws s3api put-bucket-versioning --bucket bucket ",
		},
		{
			name: "there, without expiry", aws: fakeAWS{owner: own, settings: map[string]string{"versioning": versioned}}, updates: 1,
			want: map[string]string{"deletion protection": "made", versioning: "was there", expiry: "differs"}, note: "aws s3api put-bucket-lifecycle-configuration --bucket bucket ",
		},
		{
			name: "there, with the expiry of something else", aws: fakeAWS{owner: own, settings: map[string]string{"versioning": versioned, "lifecycle": rules("stores/x/")}}, updates: 1,
			want: map[string]string{"deletion protection": "made", versioning: "was there", expiry: "differs"},
		},
		{
			name: "there, with all", aws: fakeAWS{owner: own, protected: true, settings: map[string]string{"versioning": versioned, "lifecycle": rules("")}},
			want: map[string]string{"deletion protection": "was there", versioning: "was there", expiry: "was there"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.aws.account = own
			got, notes := map[string]string{}, ""
			_, err := awssetup.Run(t.Context(), test.aws.clients(t), "bucket", "t", nil, func(s awssetup.Step) {
				if s.What == versioning || s.What == expiry || s.What == "deletion protection" {
					got[s.What] = string(s.Outcome)
					notes += s.Note
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.made, test.aws.made); diff != "" {
				t.Errorf("changes of the bucket (-want +got):\n%s", diff)
			}
			for _, part := range []string{"<Prefix>stores/</Prefix>", "<NoncurrentDays>30</NoncurrentDays>", `<Status>Enabled</Status></VersioningConfiguration>`} {
				if test.name == "new" && !strings.Contains(test.aws.bodies, part) {
					t.Errorf("it has sent %q without %s", test.aws.bodies, part)
				}
			}
			if test.aws.updates != test.updates {
				t.Errorf("%d changes of the table, want %d", test.aws.updates, test.updates)
			}
			if !strings.Contains(notes, test.note) {
				t.Errorf("the notes %q lack %q", notes, test.note)
			}
		})
	}
}
