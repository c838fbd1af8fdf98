package history

import (
	"net/http"
	"time"

	"mneme/memory"
	"mneme/server/access"
)

// maxBody is how many bytes a request has at most.
const maxBody = 4 << 20

// call is one request, as far as it was checked.
type call struct {
	*http.Request
	caller *access.Caller
	store  *memory.Store
	now    func() time.Time
	body   []byte
}
