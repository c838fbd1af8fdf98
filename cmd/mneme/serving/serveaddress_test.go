package serving

import (
	"strings"
	"testing"
)

// TestServeAddresses: serve takes hosts, addresses and origins by which a request can come, and says of
// others what would be right.
func TestServeAddresses(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		flag  ServeCmd
		wrong string // "": it is taken
	}{
		{ServeCmd{Host: []string{"memory.internal", "a", "a_b.c-d", long[1:] + ".x", "1st.example", "10.0.0.7", "::1", "xn--bcher-kva.example"}}, ""},
		{ServeCmd{Host: []string{"a..b"}}, "want a name or an address alone"},
		{ServeCmd{Host: []string{""}}, "want a name"},
		{ServeCmd{Host: []string{".a"}}, "want a name"},
		{ServeCmd{Host: []string{"a."}}, "want a name"},
		{ServeCmd{Host: []string{"."}}, "want a name"},
		{ServeCmd{Host: []string{"-a"}}, "want a name"},
		{ServeCmd{Host: []string{"a-.b"}}, "want a name"},
		{ServeCmd{Host: []string{"a b"}}, "want a name"},
		{ServeCmd{Host: []string{"a~b"}}, "want a name"},
		{ServeCmd{Host: []string{"b\u00fccher.example"}}, "want a name"},
		{ServeCmd{Host: []string{long}}, "labels of 1 to 63"},
		{ServeCmd{Host: []string{strings.Repeat("x.", 126) + "xx"}}, "253 bytes at most"},
		{ServeCmd{Host: []string{"1.2.3"}}, "want a name or an address"},
		{ServeCmd{Host: []string{"256.0.0.1"}}, "want a name or an address"},
		{ServeCmd{Host: []string{"fe80::1%eth0"}}, "want a name or an address"},
		{ServeCmd{Listen: []string{"127.0.0.1:0", "127.0.0.1:65535", "[::1]:7070", "localhost:7070"}}, ""},
		{ServeCmd{Listen: []string{":7070", "0.0.0.0:7070", "memory.internal:7070", "[fe80::1%lo]:7070"}, InsecureListen: true}, ""},
		{ServeCmd{Listen: []string{"127.0.0.1:65536"}}, "want a port from 0 to 65535"},
		{ServeCmd{Listen: []string{"127.0.0.1:-1"}}, "want a port"},
		{ServeCmd{Listen: []string{"127.0.0.1:"}}, "want a port"},
		{ServeCmd{Listen: []string{"127.0.0.1:x y"}}, "want a port"},
		{ServeCmd{Listen: []string{"a..b:7070"}, InsecureListen: true}, "want a name or an address before the port"},
		{ServeCmd{Listen: []string{" 127.0.0.1:7070"}, InsecureListen: true}, "want a name or an address before the port"},
		{ServeCmd{Origin: []string{"https://console.example", "http://localhost:3000", "http://[::1]:3000", "chrome-extension://abc"}}, ""},
		{ServeCmd{Origin: []string{"https://console.example/"}}, "want an origin as browsers send it"},
		{ServeCmd{Origin: []string{"https://Console.example"}}, "in lower case"},
		{ServeCmd{Origin: []string{"https://console.example:443"}}, "without :443"},
		{ServeCmd{Origin: []string{"https://console.example:99999"}}, "want an origin"},
		{ServeCmd{Origin: []string{"https://a@console.example"}}, "want an origin"},
		{ServeCmd{Origin: []string{"https://console.example?x"}}, "want an origin"},
		{ServeCmd{Origin: []string{"*"}}, "want an origin"},
		{ServeCmd{Origin: []string{"null"}}, "want an origin"},
	} {
		_, err := c.flag.options()
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q %q %q: %v; want %q", c.flag.Host, c.flag.Listen, c.flag.Origin, err, c.wrong)
		}
	}
}
