package virtual

import (
	"container/list"
	"context"
	"sync"
)

// kept are values that take time to read, those that were asked for last. A value is read
// once, however many ask for it at a time.
type kept[K comparable, V any] struct {
	room int         // what the sizes of all but the newest may add up to
	size func(V) int // of a value

	mu    sync.Mutex // guards what follows; never held while a value is read
	byKey map[K]*list.Element
	byUse list.List // of *value[K, V], the newest use first
	sizes int       // of those in it
}

// value is one of a kept.
type value[K comparable, V any] struct {
	key  K
	turn chan struct{} // has room for the caller that reads or looks at the value
	// Guarded by turn.
	has bool
	val V
	// Guarded by kept.mu.
	size int
}

func newKept[K comparable, V any](room int, size func(V) int) *kept[K, V] {
	return &kept[K, V]{room: room, size: size, byKey: map[K]*list.Element{}}
}

// get returns the value of a key, which it reads if it is not kept.
func (k *kept[K, V]) get(ctx context.Context, key K, read func(context.Context) (V, error)) (V, error) {
	v := k.use(key)
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
	defer func() { <-v.turn }()
	if v.has {
		return v.val, nil
	}
	val, err := read(ctx)
	if err != nil {
		k.drop(v)
		return val, err
	}
	v.val, v.has = val, true
	k.sized(v, k.size(val))
	return val, nil
}

// peek returns the value of a key, if it is kept and no other caller is looking at it.
func (k *kept[K, V]) peek(key K) (val V, ok bool) {
	k.mu.Lock()
	e := k.byKey[key]
	k.mu.Unlock()
	if e == nil {
		return val, false
	}
	v := e.Value.(*value[K, V])
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
		return v.val, v.has
	default:
		return val, false
	}
}

// use returns the value of a key, which may have to be read yet.
func (k *kept[K, V]) use(key K) *value[K, V] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byKey[key]; e != nil {
		k.byUse.MoveToFront(e)
		return e.Value.(*value[K, V])
	}
	v := &value[K, V]{key: key, turn: make(chan struct{}, 1)}
	k.byKey[key] = k.byUse.PushFront(v)
	return v
}

// sized notes the size of a value that was read, and lets others go for it.
func (k *kept[K, V]) sized(v *value[K, V], size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byKey[v.key]; e == nil || e.Value != v {
		return // it went while it was read
	}
	v.size = size
	k.sizes += size
	for e := k.byUse.Back(); e != nil && e != k.byUse.Front() && k.sizes > k.room; {
		before := e.Prev()
		k.removeLocked(e)
		e = before
	}
}

// clear lets all values go, also those that are being read.
func (k *kept[K, V]) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.byKey)
	k.byUse.Init()
	k.sizes = 0
}

// drop lets a value go.
func (k *kept[K, V]) drop(v *value[K, V]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byKey[v.key]; e != nil && e.Value == v {
		k.removeLocked(e)
	}
}

func (k *kept[K, V]) removeLocked(e *list.Element) {
	v := k.byUse.Remove(e).(*value[K, V])
	delete(k.byKey, v.key)
	k.sizes -= v.size
}
