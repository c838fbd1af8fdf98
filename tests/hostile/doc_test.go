// Package hostile holds what mneme promises about processes that mean harm, be it
// an agent in a sandbox or another user of the machine: what they cannot read,
// change, slow down or end. Each promise is held against the real binary. The
// process that breaks it runs as another user, in namespaces made by bubblewrap
// where what a sandbox shows matters.
//
// A test needs root. It makes a place, which has root's own stores; what is
// mounted there is gone when the test ends.
package hostile
