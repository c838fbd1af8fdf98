package awssetup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mneme/internal/awssetup"
)

// TestBucketOwner holds that setup takes the bucket of the table's account, or
// of the one it is told, and no other.
func TestBucketOwner(t *testing.T) {
	for _, test := range []struct {
		name  string
		aws   fakeAWS
		told  string
		owner string
		want  error  // nil is none, unless text is set
		text  string // of the error
	}{
		{name: "a new bucket", aws: fakeAWS{account: own}, owner: own},
		{name: "of the account", aws: fakeAWS{account: own, owner: own}, owner: own},
		{name: "of another account", aws: fakeAWS{account: own, owner: foreign}, want: awssetup.ErrForeignBucket, text: "not to " + own},
		{name: "of another account, told", aws: fakeAWS{account: own, owner: foreign}, told: foreign, owner: foreign},
		{name: "told wrongly", aws: fakeAWS{account: own, owner: own}, told: foreign, want: awssetup.ErrForeignBucket, text: "not to " + foreign},
		{name: "one to be made for another account", aws: fakeAWS{account: own}, told: foreign, text: "cannot make one for account " + foreign},
		{name: "denied whoever owns it", aws: fakeAWS{account: own, owner: own, denies: true}, text: "access denied"},
		{name: "a table without account", aws: fakeAWS{account: "000000000000", owner: foreign}, owner: ""},
		{name: "a table without account, told", aws: fakeAWS{account: "000000000000", owner: foreign}, told: foreign, owner: foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			owner, err := awssetup.Run(t.Context(), test.aws.clients(t), "bucket", "t", &awssetup.Options{BucketOwner: test.told}, func(awssetup.Step) {})
			if test.text != "" {
				if err == nil || !errors.Is(err, test.want) && test.want != nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("error %v, want %v with %q", err, test.want, test.text)
				}
				if len(test.aws.made) > 0 {
					t.Errorf("it has changed a bucket that it refuses: %q", test.aws.made)
				}
				return
			}
			if err != nil || owner != test.owner {
				t.Errorf("owner %q, %v, want %q", owner, err, test.owner)
			}
			if made := slices.Contains(test.aws.made, ""); made != (test.name == "a new bucket") {
				t.Errorf("made a bucket: %v", made)
			}
		})
	}
}
