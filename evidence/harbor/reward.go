package harbor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names in a verifier's folder.
const (
	RewardText    = "reward.txt"
	RewardJSON    = "reward.json"
	RewardDetails = "reward-details.json"
	TestStdout    = "test-stdout.txt"
)

// RewardKey is the name of a score that has no other.
const RewardKey = "reward"

// maxReward bounds the files that hold scores.
const maxReward = 1 << 20

// What can be wrong with scores.
var (
	ErrRewardNotFound = errors.New("RewardFileNotFoundError")
	ErrRewardEmpty    = errors.New("RewardFileEmptyError")
	ErrRewardParse    = errors.New("VerifierOutputParseError")
)

// Reward is what a verifier gave.
type Reward struct {
	// Values are the scores by name.
	Values map[string]float64
	// File is the file that holds them, Details that with the details; empty if
	// there is none.
	File, Details string
	// Criteria are the names in the details.
	Criteria []string
}

// ReadReward reads the scores that a verifier left in its folder: reward.txt if it
// is there, else reward.json.
func ReadReward(dir string) (*Reward, error) {
	r := &Reward{File: filepath.Join(dir, RewardText)}
	raw, err := readSmall(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		r.File = filepath.Join(dir, RewardJSON)
		raw, err = readSmall(r.File)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("harbor: %w: there is neither %s nor %s", ErrRewardNotFound, RewardText, RewardJSON)
	case err != nil:
		return nil, fmt.Errorf("harbor: %w: %w", ErrRewardParse, err)
	case strings.TrimSpace(string(raw)) == "":
		return nil, fmt.Errorf("harbor: %w: %s", ErrRewardEmpty, filepath.Base(r.File))
	}
	if filepath.Base(r.File) == RewardText {
		r.Values, err = oneNumber(string(raw))
	} else {
		r.Values, err = flatNumbers(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("harbor: %w: %s: %w", ErrRewardParse, filepath.Base(r.File), err)
	}
	return r, r.details(filepath.Join(dir, RewardDetails))
}

// Value returns one of the scores: the named one; if none is named, that called
// reward, or the only one.
func (r *Reward) Value(key string) (float64, error) {
	if key == "" {
		if len(r.Values) == 1 {
			for _, v := range r.Values {
				return v, nil
			}
		}
		key = RewardKey
	}
	v, ok := r.Values[key]
	if !ok {
		return 0, fmt.Errorf("harbor: %w: there is no score %q", ErrRewardParse, key)
	}
	return v, nil
}

// readSmall reads a regular file of a bounded size; what a verifier leaves is not
// to be trusted.
func readSmall(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxReward {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", filepath.Base(path), maxReward)
	}
	return os.ReadFile(path)
}

func oneNumber(s string) (map[string]float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%.40q is not one number", s)
	}
	return map[string]float64{RewardKey: f}, nil
}

func flatNumbers(raw []byte) (map[string]float64, error) {
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no score")
	}
	out := map[string]float64{}
	for name, v := range all {
		f, ok := v.(float64)
		if !ok {
			return nil, fmt.Errorf("%q is not a number", name)
		}
		out[name] = f
	}
	return out, nil
}

// details reads the names of the criteria, if there are details.
func (r *Reward) details(path string) error {
	raw, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("harbor: %w: %w", ErrRewardParse, err)
	}
	var d map[string]json.RawMessage
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("harbor: %w: %s: %w", ErrRewardParse, RewardDetails, err)
	}
	r.Details = path
	for dimension, v := range d {
		r.Criteria = append(r.Criteria, criteriaOf(dimension, v)...)
	}
	slices.Sort(r.Criteria)
	return nil
}

// criteriaOf names the criteria of a dimension; the dimension itself if it has none.
func criteriaOf(dimension string, raw json.RawMessage) []string {
	var d struct {
		Criteria []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"criteria"`
	}
	if json.Unmarshal(raw, &d) != nil || len(d.Criteria) == 0 {
		return []string{dimension}
	}
	var out []string
	for _, c := range d.Criteria {
		name := c.Name
		if name == "" {
			name = c.ID
		}
		out = append(out, dimension+"/"+name)
	}
	return out
}
