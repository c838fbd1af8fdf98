package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mneme/errkind"
)

func TestCheck(t *testing.T) {
	small := &Limits{Bytes: 60, Depth: 3, Values: 6}
	tests := []struct {
		data  string
		want  Problem // 0: taken
		field string
	}{
		{`{}`, 0, ""}, {` [ ] `, 0, ""}, {`1`, 0, ""}, {`-0.5e+9`, 0, ""}, {`"x"`, 0, ""}, {`null`, 0, ""}, {"\t{\"a\" : [1 , {\"a\":2}]\r\n}", 0, ""},
		{`{"a":{"a":1},"b":{"a":2}}`, 0, ""}, {`"😀 \" \\ \/ \b\f\n\r\t 0"`, 0, ""}, {`"\ud83d\ude00"`, 0, ""}, {`{"":1}`, 0, ""},
		{``, NotJSON, ""}, {` `, NotJSON, ""}, {`{`, NotJSON, ""}, {`{"a"`, NotJSON, ""}, {`{"a":`, NotJSON, ""}, {`{"a":1`, NotJSON, ""}, {`{"a":1,}`, NotJSON, ""},
		{`[1,]`, NotJSON, ""}, {`[,]`, NotJSON, ""}, {`[1 2]`, NotJSON, ""}, {`[1}`, NotJSON, ""}, {`{1:2}`, NotJSON, ""}, {`{a:1}`, NotJSON, ""}, {`{"a" 1}`, NotJSON, ""},
		{`{'a':1}`, NotJSON, ""}, {`01`, NotJSON, ""}, {`+1`, NotJSON, ""}, {`.5`, NotJSON, ""}, {`1.`, NotJSON, ""}, {`1e`, NotJSON, ""}, {`-`, NotJSON, ""}, {`NaN`, NotJSON, ""},
		{`tru`, NotJSON, ""}, {`nulls`, NotJSON, ""}, {`"`, NotJSON, ""}, {`"\`, NotJSON, ""}, {`"\x"`, NotJSON, ""}, {`"\u12"`, NotJSON, ""}, {`"\u12g4"`, NotJSON, ""},
		{"\"a\nb\"", NotJSON, ""}, {"\"\x00\"", NotJSON, ""}, {`{} {}`, NotJSON, ""}, {`1 2`, NotJSON, ""}, {`// x`, NotJSON, ""}, {"\ufeff{}", NotJSON, ""}, {"{}\x00", NotJSON, ""},
		{"\"\xff\"", NotUnicode, ""}, {"\"\xed\xa0\x80\"", NotUnicode, ""}, {"\"\xc0\xaf\"", NotUnicode, ""}, {`"\ud83d"`, NotUnicode, ""}, {`"\ude00"`, NotUnicode, ""},
		{`"\ud83d\ud83d"`, NotUnicode, ""}, {`"\ud83dx"`, NotUnicode, ""}, {`{"\ud83d":1}`, NotUnicode, ""}, {`"\ud83d\u12"`, NotUnicode, ""},
		{`{"a":1,"a":2}`, Twice, "a"}, {`{"a":1,"\u0061":2}`, Twice, "a"}, {`{"x":{"a":1,"b":2,"a":3}}`, Twice, "a"},
		{`[[[]]]`, 0, ""}, {`[[[[]]]]`, TooDeep, ""}, {`[1,2,3,4,5]`, 0, ""}, {`[1,2,3,4,5,6]`, TooMany, ""}, {`"` + strings.Repeat("x", 58) + `"`, 0, ""}, {`"` + strings.Repeat("x", 59) + `"`, TooLong, ""},
	}
	for _, test := range tests {
		err := Check([]byte(test.data), small)
		if test.want == 0 {
			if err != nil {
				t.Errorf("%s: %v", test.data, err)
			}
			continue
		}
		var problem *Error
		if !errors.As(err, &problem) || problem.Problem != test.want || problem.Field != test.field {
			t.Errorf("%s: %v, want problem %d of field %q", test.data, err, test.want, test.field)
			continue
		}
		if errkind.Of(err) != errkind.Invalid {
			t.Errorf("%s: %v is of kind %v", test.data, err, errkind.Of(err))
		}
	}
}

// TestElement: a problem in an array of the outermost object is told with the number of the element.
func TestElement(t *testing.T) {
	for data, want := range map[string]int{
		`{"a":[{},{"b":1,"b":2}]}`: 2, `{"a":[[1],[2],[{"b":1,"b":2}]]}`: 3, `{"a":[{"b":[1,2,"\ud800"]}]}`: 1, `{"a":[1,2,x]}`: 3, `{"x":[1,2],"a":[1,"\ud800"]}`: 2,
		`{"a":{"b":[1,"\ud800"]}}`: 0, `{"a":[1,2],"a":1}`: 0, `[1,"\ud800"]`: 0, `x`: 0,
	} {
		var problem *Error
		if err := Check([]byte(data), nil); !errors.As(err, &problem) || problem.Element != want {
			t.Errorf("%s: %+v, want element %d", data, err, want)
		}
	}
	o, err := Parse([]byte(`{"a":[{},7]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	elements, given, err := o.OptArray("a")
	if err != nil || !given || len(elements) != 2 {
		t.Fatalf("%v %v %v", elements, given, err)
	}
	if _, err := ObjectOf(elements[0]); err != nil {
		t.Error(err)
	}
	if _, err := ObjectOf(elements[1]); err == nil || err.Error() != "it must be an object, not a number" {
		t.Error(err)
	}
}

func TestObject(t *testing.T) {
	parse := func(data string) *Object {
		t.Helper()
		o, err := Parse([]byte(data), nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := parse(` {"s":"a\"\u00e9","n": -7 ,"b":false,"r":[1, -1],"t":["x",""],"os":[{},{"a":2}],"o":{"in":{"k":1}},"z":null} `)
	s, err := o.String("s")
	want(t, s, `a"é`, err)
	n, err := o.Int("n")
	want(t, n, int64(-7), err)
	b, given, err := o.OptBool("b")
	want(t, []bool{b, given}, []bool{false, true}, err)
	r, _, err := o.OptInts("r", 2)
	want(t, r, []int64{1, -1}, err)
	texts, _, err := o.OptStrings("t")
	want(t, texts, []string{"x", ""}, err)
	several, _, err := o.OptObjects("os")
	want(t, len(several), 2, err)
	one, err := several[1].Int("a")
	want(t, one, int64(2), err)
	inner, err := o.Object("o")
	want(t, err, error(nil), err)
	inner, err = inner.Object("in")
	want(t, err, error(nil), err)
	k, err := inner.Int("k")
	want(t, k, int64(1), err)
	want(t, inner.Done(), error(nil), nil)
	for _, name := range []string{"s", "n", "o"} { // null is as good as nothing
		o := parse(`{"` + name + `":null}`)
		_, hasText, errText := o.OptString("s")
		_, hasNumber, errNumber := o.OptInt("n")
		_, hasObject, errObject := o.OptObject("o")
		if hasText || hasNumber || hasObject || errText != nil || errNumber != nil || errObject != nil || o.Done() != nil {
			t.Errorf("%s is null: %v, %v, %v, %v, %v", name, hasText, hasNumber, hasObject, errors.Join(errText, errNumber, errObject), o.Done())
		}
	}
	for text, number := range map[string]int64{"1.0": 1, "-20.000": -20, "0.0": 0, "-0": 0} {
		n, err := parse(`{"n":` + text + `}`).Int("n")
		want(t, n, number, err)
	}
	nulls := parse(`{"a":null,"b":[null],"c":{"d":null}}`)
	nulls.DropNulls()
	want(t, fmt.Sprint(nulls.Names()), "[b c]", nil)
	if _, given, err := o.OptString("absent"); given || err != nil {
		t.Errorf("absent: %v, %v", given, err)
	}
	want(t, o.Has("z"), true, nil)
	want(t, fmt.Sprint(o.Done()), "field z: it is unknown", nil)
	want(t, string(o.Raw("z")), "null", nil)
	want(t, o.Done(), error(nil), nil)
}

func TestObjectErrors(t *testing.T) {
	tests := []struct{ value, get, want string }{
		{`"1"`, "int", "field f: it must be a whole number, not a string"},
		{`1.5`, "int", "field f: it must be a whole number, not a number with a fraction or an exponent"},
		{`1e3`, "int", "field f: it must be a whole number, not a number with a fraction or an exponent"},
		{`9223372036854775808`, "int", "field f: it must be a whole number, not a number that 64 bits do not hold"},
		{`null`, "int", "field f: it must be a whole number, not null"},
		{`1`, "string", "field f: it must be a string, not a number"},
		{`null`, "string", "field f: it must be a string, not null"},
		{`"true"`, "bool", "field f: it must be true or false, not a string"},
		{`[1]`, "ints", "field f: it must be an array of 2 whole numbers, not another array"},
		{`[1,"2"]`, "ints", "field f: it must be an array of 2 whole numbers, not another array"},
		{`{}`, "ints", "field f: it must be an array of 2 whole numbers, not an object"},
		{`["a",1]`, "strings", "field f: it must be an array of strings, not another array"},
		{`[{},1]`, "objects", "field f: it must be an array of objects, not another array"},
		{`{}`, "objects", "field f: it must be an array of objects, not an object"},
		{`[]`, "object", "field f: it must be an object, not an array"},
		{``, "string", "field f: it is missing"},
		{``, "int", "field f: it is missing"},
		{``, "object", "field f: it is missing"},
	}
	for _, test := range tests {
		data := "{}"
		if test.value != "" {
			data = `{"f":` + test.value + `}`
		}
		o, err := Parse([]byte(data), nil)
		if err != nil {
			t.Fatal(err)
		}
		switch test.get {
		case "int":
			_, err = o.Int("f")
		case "string":
			_, err = o.String("f")
		case "bool":
			_, _, err = o.OptBool("f")
		case "ints":
			_, _, err = o.OptInts("f", 2)
		case "strings":
			_, _, err = o.OptStrings("f")
		case "objects":
			_, _, err = o.OptObjects("f")
		case "object":
			_, err = o.Object("f")
		}
		if fmt.Sprint(err) != test.want {
			t.Errorf("%s as %s: %v, want %s", test.value, test.get, err, test.want)
		}
	}
	if _, err := Parse([]byte(` ["secret"]`), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an array is taken for an object: %v", err)
	}
}

// TestErrorsAreBounded: a name is the only part of a request that an error shows, escaped
// and cut.
func TestErrorsAreBounded(t *testing.T) {
	name := "a\u202eb`\n" + strings.Repeat("é", 1000)
	o, err := Parse([]byte(`{`+string(mustMarshal(t, name))+`:"secret"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := o.Done().Error()
	if len(text) > 150 || strings.ContainsAny(text, "\u202e\n`") || strings.Contains(text, "secret") {
		t.Errorf("the error is %q", text)
	}
}

func FuzzCheck(f *testing.F) {
	for _, data := range []string{`{"a":[1,-2.5e7,"x\u00e9\ud83d\ude00",null,true,{"b":{}}]}`, `{"a":1,"a":2}`, `"\ud800"`, `[[[]]]`, "{\"a\":\"\xff\"}", `{"a":1} x`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Check(data, nil)
		var problem *Error
		if err != nil {
			if !errors.As(err, &problem) || len(err.Error()) > 200 {
				t.Fatalf("%q: %v", data, err)
			}
			if problem.Problem == NotJSON && json.Valid(data) {
				t.Fatalf("%q is JSON", data)
			}
			return
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			t.Fatalf("%q is taken: %v", data, err)
		}
		again := mustMarshal(t, value)
		if err := Check(again, nil); err != nil {
			t.Fatalf("%q is taken, and %q is not: %v", data, again, err)
		}
		o, err := Parse(data, nil)
		fields, isObject := value.(map[string]any)
		if isObject != (err == nil) {
			t.Fatalf("%q: %v", data, err)
		}
		for name, want := range fields {
			var got any
			if err := json.Unmarshal(o.Raw(name), &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: field %q is %v: %v", data, name, got, err)
			}
		}
		if isObject && o.Done() != nil {
			t.Fatalf("%q: %v", data, o.Done())
		}
	})
}

func mustMarshal(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func want(t *testing.T, got, want any, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
