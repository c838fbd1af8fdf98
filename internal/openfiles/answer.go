package openfiles

// Answer is to a question about a process, which may be in another namespace, or be
// hidden by the way that /proc is mounted. Unknown is not "no".
type Answer int

const (
	No Answer = iota
	Yes
	Unknown
)

func (a Answer) String() string {
	return [...]string{"no", "yes", "unknown"}[a]
}
