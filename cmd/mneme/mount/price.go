package mount

import (
	"fmt"
	"strings"

	"mneme/backend"
	"mneme/cache"
	"mneme/internal/bytesize"
	"mneme/internal/plural"
)

// priceDate is the date of the prices below, from AWS's price lists for us-east-1: S3
// Standard, DynamoDB on demand. docs/AWS.md has the same table.
const priceDate = "2025-06"

// prices are US$ per million.
var prices = []struct {
	what string
	usd  float64
}{
	{"S3 PUT, LIST", 5},
	{"S3 GET, HEAD", 0.4},
	{"DynamoDB write request unit", 0.625},
	{"DynamoDB read request unit", 0.125},
}

// Indexes of prices.
const (
	priceS3Write = iota
	priceS3Read
	priceWriteUnit
	priceReadUnit
)

const (
	readUnitBytes = 4096 // a read request unit covers
	// A transaction of one commit has four rows. Each takes two write request units while it
	// is smaller than 1 KiB. About writeRowBytes of its bytes belong to one row.
	commitUnits   = 8
	writeRowBytes = 720
	batchRowBytes = 350 // of a row put or deleted outside a transaction
)

// estimateUSD estimates the cost of requests. It counts reads as strongly consistent, so it
// is rather too high.
func estimateUSD(requests []backend.RequestCount) float64 {
	usd := 0.0
	for _, r := range requests {
		units, price := units(r)
		usd += units * prices[price].usd / 1e6
	}
	return usd
}

// units returns the price of a kind of requests, and the number of its units.
func units(r backend.RequestCount) (n float64, price int) {
	count := float64(r.Count)
	switch operation, isDynamo := strings.CutPrefix(r.Kind, "dynamodb "); {
	case !isDynamo && strings.HasSuffix(r.Kind, "DELETE"):
		return 0, priceS3Write
	case !isDynamo && (strings.HasSuffix(r.Kind, "GET") || strings.HasSuffix(r.Kind, "HEAD")):
		return count, priceS3Read
	case !isDynamo:
		return count, priceS3Write
	case operation == "TransactWriteItems":
		return max(commitUnits*count, 2*float64(r.Sent)/writeRowBytes), priceWriteUnit
	case strings.Contains(operation, "Write") || strings.Contains(operation, "Put") || strings.Contains(operation, "Delete") || strings.Contains(operation, "Update"):
		return max(count, float64(r.Sent)/batchRowBytes), priceWriteUnit
	}
	return max(count, float64(r.Received)/readUnitBytes), priceReadUnit
}

// usageLines are lines of .mneme/status about the requests to S3 and DynamoDB, and those
// that the caches saved.
func usageLines(requests []backend.RequestCount, c cache.Stats) []string {
	reads := c.MemoryHits + c.DiskHits + c.Misses
	percent := func(n uint64) string { return fmt.Sprintf("%d %%", (200*n+reads)/max(2*reads, 1)) }
	lines := []string{
		fmt.Sprintf("cache: %s of blobs, %s from memory, %s from disk, %s fetched (%s)",
			plural.Of(reads, "read"), percent(c.MemoryHits), percent(c.DiskHits), percent(c.Misses), bytesize.Text(c.FetchedBytes)),
		fmt.Sprintf("cache-size: %s in memory, %s on disk", bytesize.Text(uint64(max(c.MemoryBytes, 0))), bytesize.Text(uint64(max(c.DiskBytes, 0)))),
	}
	for _, r := range requests {
		lines = append(lines, fmt.Sprintf("%s: %s, %s sent, %s received", strings.ToLower(strings.ReplaceAll(r.Kind, " ", "-")),
			plural.Of(r.Count, "request"), bytesize.Text(r.Sent), bytesize.Text(r.Received)))
	}
	return append(lines, fmt.Sprintf("cost: about US$ %.6f for these requests (us-east-1, prices of %s)", estimateUSD(requests), priceDate))
}
