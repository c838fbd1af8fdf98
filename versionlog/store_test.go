package versionlog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fill gives every field of a value that is zero another value, each its own.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMicro(1e15 + *n).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, n)
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("a field of kind %v", v.Kind())
	}
}

// TestStoreJSON makes sure that the JSON form of a store has all of it.
func TestStoreJSON(t *testing.T) {
	var s Store
	fill(t, reflect.ValueOf(&s).Elem(), new(int64))
	text, err := json.Marshal(NewStoreJSON(s))
	if err != nil {
		t.Fatal(err)
	}
	var j StoreJSON
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, j.Store()); diff != "" {
		t.Errorf("after JSON (-was +is):\n%s", diff)
	}
}

// TestSettings makes sure that events have all that an update changes, and all that a store is
// created with.
func TestSettings(t *testing.T) {
	var u StoreUpdate
	fill(t, reflect.ValueOf(&u).Elem(), new(int64))
	got, err := StoreUpdated(u).update()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(u, got); diff != "" {
		t.Errorf("after an event (-was +is):\n%s", diff)
	}
	var s Store
	fill(t, reflect.ValueOf(&s).Elem(), new(int64))
	s.UpdatedAt, s.ArchivedAt = time.Time{}, time.Time{} // which creation leaves zero
	created := Commit{Seq: 1, Epoch: s.Epoch, Event: StoreCreated(s)}
	if diff := cmp.Diff(s, Store{ID: s.ID, Slug: s.Slug, Replica: s.Replica}.After(&created, false)); diff != "" {
		t.Errorf("after its creation (-was +is):\n%s", diff)
	}
	var told Told
	told.Add(&created)
	if wrong := told.Contradicts(&s); wrong != nil {
		t.Errorf("a creation contradicts its store: %v", wrong)
	}
}
