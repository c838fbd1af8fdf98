package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mneme/errkind"
	"mneme/secrets"
	"mneme/versionlog"
)

// ErrSecrets matches every *SecretsError, under errors.Is.
var ErrSecrets = errkind.New(errkind.Policy, "held back by the store's rule for secrets")

// The texts of a Mention, and of a SecretsFound, that are no content.
const (
	MentionPath    = "path"
	MentionMessage = "message"
)

// SecretsFound says which credentials a content has that the one before it did not have, or
// which ones a new path or the message of a commit has.
type SecretsFound struct {
	Path  string            // without the credentials that were found in it
	In    string            // "" is the content; MentionPath, MentionMessage
	Found []secrets.Finding // the first ones, at most maxSecrets
}

const (
	MaxSecrets    = 100    // credentials of one content that are told
	maxSecretsMet = 10_000 // that are compared with what was there
)

// String says where the first one is, without a word of it: one line.
func (f *SecretsFound) String() string {
	first := &f.Found[0]
	more := ""
	switch n := len(f.Found) - 1; {
	case n == 1:
		more = ", and there is another one"
	case n > 1:
		more = fmt.Sprintf(", and there are %d more", n)
	}
	where := fmt.Sprintf("line %d", first.Line)
	if f.In != "" {
		where = "the " + f.In
	}
	return fmt.Sprintf("%s has what looks like a credential (%s)%s", where, first.Rule, more)
}

// SecretsError says which credentials a commit would bring into a store that refuses them. The
// same commit passes if it is confirmed.
type SecretsError struct{ SecretsFound }

// Error gives the rule and the line.
func (e *SecretsError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrSecrets, e.Path, e.String())
}

// Is makes every *SecretsError an ErrSecrets.
func (e *SecretsError) Is(target error) bool { return target == ErrSecrets }

// Kind is errkind.Policy.
func (e *SecretsError) Kind() errkind.Kind { return errkind.Policy }

// lookForSecrets returns the credentials that changes and their message bring into a store with
// a rule for them. Credentials that the head at their path has already are left out, so that a
// memory which has one can be edited. A store that refuses them has a *SecretsError, unless it
// is confirmed.
//
// contentOf returns a content, or the version that has it. Contents are always looked at, which
// takes less than a millisecond for 100 KiB. The log is asked for the store's rule and for the
// heads only if something was found, or if the content of an earlier version must be read. The
// rule is the one in force now, not the one in force when the store was opened.
func (s *Store) lookForSecrets(ctx context.Context, message string, changes []versionlog.Change, contentOf func(i int) ([]byte, *versionlog.Version), confirmed bool) (all []SecretsFound, err error) {
	all, first, err := s.secretsInNames(ctx, message, changes)
	if err != nil {
		return nil, err
	}
	rule := &secretsRule{s: s}
	if len(all) > 0 {
		if off, err := rule.isOff(ctx, all[0].Path); off || err != nil {
			return nil, err
		}
	}
	for i := range changes {
		if changes[i].Action != versionlog.Put && changes[i].Action != versionlog.Rename {
			continue
		}
		path := changes[i].Path
		content, source := contentOf(i) // neither is one of a rename that keeps it
		found, off, err := rule.newSecrets(ctx, path, content, source)
		if off || err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		if all == nil {
			first = i
		}
		all = append(all, SecretsFound{Path: path, Found: found[:min(len(found), MaxSecrets)]})
	}
	if rule.rule == versionlog.SecretsRefuse && len(all) > 0 && !confirmed {
		return nil, fmt.Errorf("store %s: %w", s.info.Slug, &ChangeError{first, &SecretsError{all[0]}})
	}
	return all, nil
}

// secretsRule is a store's rule about credentials, which the log is asked for once, when it is needed.
type secretsRule struct {
	s    *Store
	rule versionlog.SecretsRule // versionlog.SecretsOff until the log was asked
}

// isOff reports whether the store takes credentials. path is the one that an error names.
func (r *secretsRule) isOff(ctx context.Context, path string) (bool, error) {
	if r.rule != versionlog.SecretsOff {
		return false, nil
	}
	now, err := r.s.log.Store(ctx, r.s.info.ID)
	if err != nil {
		return false, r.s.Wrap(path, err)
	}
	r.rule = now.Policy.Secrets
	return r.rule == versionlog.SecretsOff, nil
}

// newSecrets returns the credentials in a content, or in that of a version, that the memory at the path does
// not have. off reports that the rule is off, and nothing needs to be looked for.
func (r *secretsRule) newSecrets(ctx context.Context, path string, content []byte, source *versionlog.Version) (found []secrets.Finding, off bool, err error) {
	if source == nil {
		if found = secrets.Find(content, maxSecretsMet); len(found) == 0 {
			return nil, false, nil
		}
	}
	if off, err := r.isOff(ctx, path); off || err != nil {
		return nil, off, err
	}
	if source != nil {
		if content, err = r.s.Content(ctx, *source); err != nil {
			return nil, false, err
		}
		if found = secrets.Find(content, maxSecretsMet); len(found) == 0 {
			return nil, false, nil
		}
	}
	found, err = r.s.newSecrets(ctx, path, content, found)
	return found, false, err
}

// secretsInNames returns the credentials in the message and in the paths that changes make,
// and which change is the first of these. An existing path with a credential can be written
// to again, and a moved memory keeps the credentials of its path.
func (s *Store) secretsInNames(ctx context.Context, message string, changes []versionlog.Change) (all []SecretsFound, first int, err error) {
	if found := secrets.Find([]byte(message), MaxSecrets); len(found) > 0 && len(changes) > 0 {
		all = append(all, SecretsFound{Path: mask(changes[0].Path), In: MentionMessage, Found: found})
	}
	for i := range changes {
		c := &changes[i]
		path, had := c.Path, ""
		switch c.Action {
		case versionlog.Remove:
			continue
		case versionlog.Rename:
			path, had = c.To, c.Path
		}
		found := slices.DeleteFunc(secrets.Find([]byte(path), MaxSecrets), func(f secrets.Finding) bool {
			return strings.Contains(had, string(f.Value([]byte(path))))
		})
		if len(found) == 0 {
			continue
		}
		if _, err := s.Head(ctx, strings.TrimSuffix(path, "/")); err == nil {
			continue
		} else if !errors.Is(err, versionlog.ErrNotFound) {
			return nil, 0, err
		}
		if all == nil {
			first = i
		}
		all = append(all, SecretsFound{Path: mask(path), In: MentionPath, Found: found})
	}
	return all, first, nil
}

// mask returns a path without the credentials in it.
func mask(path string) string {
	all := secrets.Find([]byte(path), MaxSecrets)
	for i := range slices.Backward(all) {
		f := &all[i]
		path = path[:f.Offset] + f.Masked + path[f.Offset+f.Length:]
	}
	return path
}

// CheckSecrets returns a *SecretsError where the store refuses credentials that a content would
// bring to a path.
func (s *Store) CheckSecrets(ctx context.Context, path string, content []byte) error {
	put := []versionlog.Change{{Action: versionlog.Put, Path: path}}
	_, err := s.lookForSecrets(ctx, "", put, func(int) ([]byte, *versionlog.Version) { return content, nil }, false)
	return err
}

// CheckSecretsOf returns a *SecretsError where a new store of a policy would refuse a content.
func CheckSecretsOf(policy versionlog.Policy, path string, content []byte) error {
	if policy.Secrets != versionlog.SecretsRefuse {
		return nil
	}
	if found := secrets.Find([]byte(path), MaxSecrets); len(found) > 0 {
		return &SecretsError{SecretsFound{Path: mask(path), In: MentionPath, Found: found}}
	}
	if found := secrets.Find(content, MaxSecrets); len(found) > 0 {
		return &SecretsError{SecretsFound{Path: path, Found: found}}
	}
	return nil
}

// newSecrets returns those of the findings in data that are not in the memory at a path.
func (s *Store) newSecrets(ctx context.Context, path string, data []byte, found []secrets.Finding) ([]secrets.Finding, error) {
	_, old, err := s.Read(ctx, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		return found, nil
	case IsLost(err): // there is nothing to compare with
		return found, nil
	case err != nil:
		return nil, err
	}
	known := map[string]bool{}
	for _, f := range secrets.Find(old, len(old)) {
		known[string(f.Value(old))] = true
	}
	var fresh []secrets.Finding
	for _, f := range found {
		if !known[string(f.Value(data))] {
			fresh = append(fresh, f)
		}
	}
	return fresh, nil
}
