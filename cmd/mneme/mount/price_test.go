package mount

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mneme/backend"
	"mneme/cache"
)

// TestPricesAreThoseOfTheDocs: docs/AWS.md and the code have one table.
func TestPricesAreThoseOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/AWS.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "prices of " + priceDate; !strings.Contains(string(doc), want) {
		t.Errorf("docs/AWS.md does not say %q", want)
	}
	row := regexp.MustCompile(`(?m)^\| ((?:S3|DynamoDB) [^|]+?) \| ([0-9.]+) \|$`)
	found := map[string]float64{}
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		if found[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
	if len(found) != len(prices) {
		t.Errorf("the docs have %d prices, the code %d: %v", len(found), len(prices), found)
	}
	for _, p := range prices {
		if found[p.what] != p.usd {
			t.Errorf("%s: the docs say %v, the code %v", p.what, found[p.what], p.usd)
		}
	}
}

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		requests backend.RequestCount
		usd      float64 // per million requests
	}{
		{backend.RequestCount{Kind: "s3 GET", Received: 1 << 30}, 0.4},
		{backend.RequestCount{Kind: "s3 HEAD"}, 0.4},
		{backend.RequestCount{Kind: "s3 PUT"}, 5},
		{backend.RequestCount{Kind: "s3 LIST"}, 5},
		{backend.RequestCount{Kind: "s3 DELETE"}, 0},
		{backend.RequestCount{Kind: "dynamodb GetItem", Received: 300e6}, 0.125},
		{backend.RequestCount{Kind: "dynamodb Query", Received: 1e6 * 40960}, 1.25},
		{backend.RequestCount{Kind: "dynamodb TransactWriteItems", Sent: 1e6 * 2880}, 5},
		{backend.RequestCount{Kind: "dynamodb TransactWriteItems", Sent: 1e6 * 5760}, 10},
		{backend.RequestCount{Kind: "dynamodb BatchWriteItem", Sent: 1e6 * 700}, 1.25},
	} {
		c.requests.Count = 1e6
		if usd := estimateUSD([]backend.RequestCount{c.requests}); math.Abs(usd-c.usd) > 1e-9 {
			t.Errorf("%+v: US$ %v, want %v", c.requests, usd, c.usd)
		}
	}
}

func TestUsageLines(t *testing.T) {
	lines := usageLines([]backend.RequestCount{
		{Kind: "dynamodb GetItem", Count: 1, Sent: 100, Received: 2000}, {Kind: "s3 GET", Count: 5, Received: 12345},
	}, cache.Stats{MemoryHits: 6, DiskHits: 3, Misses: 1, FetchedBytes: 999, MemoryBytes: 4096, DiskBytes: 8192})
	want := `cache: 10 reads of blobs, 60 % from memory, 30 % from disk, 10 % fetched (999 B)
cache-size: 4.10 kB in memory, 8.19 kB on disk
dynamodb-getitem: 1 request, 100 B sent, 2.00 kB received
s3-get: 5 requests, 0 B sent, 12.3 kB received
cost: about US$ 0.000002 for these requests (us-east-1, prices of ` + priceDate + `)`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, line := range usageLines(nil, cache.Stats{}) {
		if strings.Contains(line, "NaN") {
			t.Error(line)
		}
	}
}
