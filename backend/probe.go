package backend

// Probed is one thing that was tried of a backend.
type Probed struct {
	What string // such as "S3 conditional writes"
	Err  error  // what is wrong, and what to do; nil: nothing. An ErrNotAllowed: it could not be tried
	Note string // what was seen
}
