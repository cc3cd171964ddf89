package vectors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

var decodes = Filter{Ops: []string{"decode"}}

// answers gives the right answer to each input.
func answers() map[string]Expect {
	found := map[string]Expect{}
	for _, each := range Cases(decodes) {
		found[string(each.Input.Data)] = each.Expect
	}
	return found
}

func TestCountsAreThoseOfTheManifest(t *testing.T) {
	cases, ops, verdicts, areas := Cases(Filter{}), map[string]int{}, map[string]int{}, map[string]int{}
	for _, each := range cases {
		ops[each.Op]++
		verdicts[each.Expect.Verdict]++
		areas[each.Area]++
	}
	manifest := Describe()
	if len(cases) == 0 || len(cases) != manifest.Cases {
		t.Fatalf("%d cases, %d in the manifest", len(cases), manifest.Cases)
	}
	for _, pair := range [][2]map[string]int{{ops, manifest.Ops}, {verdicts, manifest.Verdicts}, {areas, manifest.Areas}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%v, and in the manifest %v", pair[0], pair[1])
		}
	}
}

func TestHashesAreThoseOfTheManifest(t *testing.T) {
	for name, data := range map[string][]byte{"cases.ndjson": casesData, "rules.json": rulesData} {
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != Describe().SHA256[name] {
			t.Errorf("%s has another hash", name)
		}
	}
}

func TestEachCaseIsComplete(t *testing.T) {
	rules := Rules()
	for _, each := range Cases(Filter{}) {
		inputs := 0
		for _, is := range []bool{each.Input.Data != nil, each.Input.Batch != nil, each.Input.Scenario != nil} {
			if is {
				inputs++
			}
		}
		if inputs != 1 || each.Title == "" || each.Facts.Profile == "" || each.Facts.Reach == "" {
			t.Errorf("%s is not complete", each.ID)
		}
		if each.Input.Scenario != nil && len(each.Input.Scenario.Steps) != len(each.Expect.Answers) {
			t.Errorf("%s has steps without answers", each.ID)
		}
		for _, rule := range each.Rules {
			if len(rules[rule].Sources) == 0 {
				t.Errorf("%s names %s, which has no sources", each.ID, rule)
			}
		}
	}
}

func TestTypesHoldEverything(t *testing.T) {
	lines := json.NewDecoder(bytes.NewReader(casesData))
	lines.DisallowUnknownFields()
	for lines.More() {
		var each Case
		if err := lines.Decode(&each); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilterChooses(t *testing.T) {
	chosen := Cases(Filter{Ops: []string{"decode"}, Magics: []int{2}, Compressions: []string{"none", "zstd"}, Areas: []string{"v2_batch", "zstd"}})
	if len(chosen) == 0 || len(chosen) == len(Cases(decodes)) {
		t.Fatalf("%d cases", len(chosen))
	}
	for _, each := range chosen {
		if each.Op != "decode" || slices.Contains(each.Facts.Magics, 1) || slices.Contains(each.Facts.Compressions, "gzip") {
			t.Errorf("%s should not be chosen", each.ID)
		}
	}
}

func TestRightDecoderHasNoFinding(t *testing.T) {
	known := answers()
	report := Run(Cases(decodes), func(data []byte) ([]Record, error) {
		if expect := known[string(data)]; expect.Verdict != "invalid" {
			return expect.Records(true), nil
		}
		return nil, errors.New("invalid")
	})
	if len(report.Findings) != 0 || report.Counts[Agree] != Describe().Ops["decode"] {
		t.Error(report)
	}
}

func TestWrongDecodersAreFound(t *testing.T) {
	known := answers()
	wrong := map[string]struct {
		decode Decode
		least  map[Outcome]bool
	}{
		"accepts everything": {
			func(data []byte) ([]Record, error) { return known[string(data)].Records(true), nil },
			map[Outcome]bool{AcceptsInvalid: true},
		},
		"gives nothing": {
			func([]byte) ([]Record, error) { return nil, nil },
			map[Outcome]bool{AcceptsInvalid: true, WrongData: true},
		},
		"refuses everything": {
			func([]byte) ([]Record, error) { return nil, errors.New("no") },
			map[Outcome]bool{RejectsValid: true},
		},
		"takes null for empty": {
			func(data []byte) ([]Record, error) {
				records := slices.Clone(known[string(data)].Records(true))
				for i := range records {
					records[i].Key = append([]byte{}, records[i].Key...)
				}
				return records, nil
			},
			map[Outcome]bool{WrongData: true, AcceptsInvalid: true},
		},
		"panics": {
			func([]byte) ([]Record, error) { panic("planted") },
			map[Outcome]bool{Crash: true},
		},
	}
	for name, bug := range wrong {
		report := Run(Cases(decodes), bug.decode)
		for _, outcome := range []Outcome{WrongData, RejectsValid, AcceptsInvalid, Crash} {
			if (report.Counts[outcome] > 0) != bug.least[outcome] {
				t.Errorf("a decoder that %s: %v", name, report)
			}
		}
	}
}

func ExampleCases() {
	for _, each := range Cases(Filter{Areas: []string{"v2_batch"}, Verdicts: []string{"valid"}})[:1] {
		fmt.Println(each.Op, len(each.Input.Data) > 60, each.Expect.Batches[0].Magic)
	}
	// Output: decode true 2
}
