package dynamolog

import (
	"errors"
	"io"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
)

// TestTransferBreaksOff holds that an object whose transfer breaks off is asked
// for again, once, and that what came of it is not taken for the whole.
func TestTransferBreaksOff(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "text")
	closeOnce(t, l)
	transport := newTransport()
	r := records{s3: b.clients(t, transport).S3, bucket: b.bucket}
	name := recordKey(s.ID, span{1, 1})
	armed := transport.Arm(fault.Fault{Site: "s3 GET log", Times: 1, Action: fault.CutBody})
	if _, err := r.get(t.Context(), name); err != nil || armed.Hits() != 1 {
		t.Errorf("once: %v, %d hits", err, armed.Hits())
	}
	transport.Arm(fault.Fault{Site: "s3 GET log", Times: 2, Action: fault.CutBody})
	if data, err := r.get(t.Context(), name); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("twice: %q, %v", data, err)
	}
}
