package server

import "time"

// times are the limits of time of a request.
type times struct {
	body    time.Duration // for its body, see body
	request time.Duration // from then until the answer is there
}

// answerTimeout is how long a client may take to read an answer, and restTimeout how long one whose request
// was answered before it was read may go on to send it.
const (
	answerTimeout = 10 * time.Second
	restTimeout   = time.Second
)
