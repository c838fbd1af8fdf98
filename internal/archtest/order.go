package archtest

import (
	"cmp"
	"maps"
	"slices"
)

// graph is how the files of a package refer to each other.
type graph struct {
	files  []string // sorted
	arrows map[arrow]names
}

// arrow leads from the file that names something to the one that declares it.
type arrow struct{ from, to string }

// names are what an arrow's first file names of the second, with the first line
// that does so.
type names map[string]int

func (g *graph) add(a arrow, name string, line int) {
	if g.arrows[a] == nil {
		g.arrows[a] = names{}
	}
	if first, ok := g.arrows[a][name]; !ok || line < first {
		g.arrows[a][name] = line
	}
}

// back returns the arrows that run back up: those that are against an order of
// the files in which as many arrows as possible point downwards. Files that do
// not refer to each other in a circle have none. Of two orders with as many, it
// is the one where the arrows against it are known, or else name less: so what
// a change adds is what is told.
//
// Finding the least number takes exponential time. This is the heuristic of
// Eades, Lin and Smyth (A fast and effective heuristic for the feedback arc set
// problem, 1993), followed by moving single files for as long as that helps. It
// begins once with all arrows and once without those that are known.
func (g *graph) back(known map[arrow]bool) []arrow {
	all := slices.SortedFunc(maps.Keys(g.arrows), compareArrows)
	costs := map[arrow]int{}
	for _, a := range all {
		costs[a] = 1 << 16
		if !known[a] {
			costs[a] += len(g.arrows[a])
		}
	}
	least := func(without map[arrow]bool) []string {
		some := slices.DeleteFunc(slices.Clone(all), func(a arrow) bool { return without[a] })
		return improve(greedy(g.files, some), costs)
	}
	order, other := least(known), least(nil)
	if costOf(against(other, all), costs) < costOf(against(order, all), costs) {
		order = other
	}
	return against(order, all)
}

func costOf(arrows []arrow, costs map[arrow]int) int {
	sum := 0
	for _, a := range arrows {
		sum += costs[a]
	}
	return sum
}

func compareArrows(a, b arrow) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
}

// greedy returns an order, from the top down. A file that nothing points to any
// more goes to the top, one that points to nothing to the bottom, and where
// there are only circles, the one that points to most more than point to it
// goes to the top.
func greedy(files []string, arrows []arrow) []string {
	var top, bottom []string
	left := slices.Clone(files)
	for len(left) > 0 {
		out, in := map[string]int{}, map[string]int{}
		for _, a := range arrows {
			if slices.Contains(left, a.from) && slices.Contains(left, a.to) {
				out[a.from]++
				in[a.to]++
			}
		}
		sink := slices.IndexFunc(left, func(f string) bool { return out[f] == 0 })
		if sink >= 0 {
			bottom = append(bottom, left[sink])
			left = slices.Delete(left, sink, sink+1)
			continue
		}
		source := slices.IndexFunc(left, func(f string) bool { return in[f] == 0 })
		if source < 0 {
			source = slices.Index(left, slices.MaxFunc(left, func(a, b string) int { return cmp.Compare(out[a]-in[a], out[b]-in[b]) }))
		}
		top = append(top, left[source])
		left = slices.Delete(left, source, source+1)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// improve moves one file after another to where the arrows against it cost
// least, until no move helps.
func improve(order []string, costs map[arrow]int) []string {
	for moved := true; moved; {
		moved = false
		for _, file := range slices.Sorted(slices.Values(order)) {
			at := slices.Index(order, file)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			if to := bestPlace(file, at, rest, costs); to != at {
				order, moved = slices.Insert(rest, to, file), true
			}
		}
	}
	return order
}

// bestPlace returns where in rest the arrows against the file cost least: at,
// if no other place is better.
func bestPlace(file string, at int, rest []string, costs map[arrow]int) int {
	cost, places := 0, []int{0} // compared with the very top
	for _, above := range rest {
		cost += costs[arrow{file, above}] - costs[arrow{above, file}]
		places = append(places, cost)
	}
	best := at
	for place, cost := range places {
		if cost < places[best] {
			best = place
		}
	}
	return best
}

// against returns the arrows that point upwards in the order.
func against(order []string, arrows []arrow) []arrow {
	place := map[string]int{}
	for i, file := range order {
		place[file] = i
	}
	var back []arrow
	for _, a := range arrows {
		if place[a.from] > place[a.to] {
			back = append(back, a)
		}
	}
	return back
}
