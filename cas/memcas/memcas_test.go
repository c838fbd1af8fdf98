package memcas_test

import (
	"testing"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/memcas"
)

func TestConformance(t *testing.T) {
	castest.Run(t, castest.Config{
		Open: func(*testing.T) cas.Store { return memcas.New() },
		Corrupt: func(_ *testing.T, s cas.Store, d cas.Digest, data []byte) {
			s.(*memcas.Store).Corrupt(d, data)
		},
	})
}
