package wire

import "fmt"

// CutError says that a stream has no end, or makes no sense.
type CutError struct{ Err error }

// Error says why.
func (e *CutError) Error() string { return fmt.Sprintf("the answer breaks off: %v", e.Err) }

// Unwrap returns the error of the transport.
func (e *CutError) Unwrap() error { return e.Err }

// BadError says that an answer is none that a server of this protocol gives. To ask again is of
// no use.
type BadError struct{ Err error }

// Error says why.
func (e *BadError) Error() string { return fmt.Sprintf("the answer cannot be taken: %v", e.Err) }

// Unwrap returns why.
func (e *BadError) Unwrap() error { return e.Err }
