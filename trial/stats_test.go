package trial

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestQuantilesOfStudentsDistribution(t *testing.T) {
	for _, c := range []struct{ degrees, want float64 }{
		{1, 12.7062047}, {2, 4.3026527}, {3, 3.1824463}, {4, 2.7764451}, {9, 2.2621572}, {10, 2.2281389}, {29, 2.0452296}, {100, 1.9839715}, {1000, 1.9623391}, {math.Inf(1), 1.9599640},
	} {
		if got := tQuantile(0.975, c.degrees); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v degrees: %v, want %v", c.degrees, got, c.want)
		}
	}
}

// TestIntervalsCoverTheTruth draws samples whose difference is known: about 95 of
// 100 intervals must hold it.
func TestIntervalsCoverTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const rounds, truth = 2000, 0.3
	for _, paired := range []bool{true, false} {
		covered := 0
		for range rounds {
			var b, c []sample
			for i := range 8 {
				task := string(rune('a' + i))
				difficulty := rnd.NormFloat64()
				b = append(b, sample{task, difficulty + rnd.NormFloat64()})
				if !paired {
					task, difficulty = "other-"+task, rnd.NormFloat64()
				}
				c = append(c, sample{task, difficulty + truth + 2*rnd.NormFloat64()})
			}
			_, i := interval(b, c)
			if (i.Method == "paired") != paired {
				t.Fatal(i.Method)
			}
			if *i.Low <= truth && truth <= *i.High {
				covered++
			}
		}
		if share := float64(covered) / rounds; share < 0.93 || share > 0.97 {
			t.Errorf("paired %v: %.3f of the intervals hold the difference", paired, share)
		}
	}
}

// TestAnIntervalIsAroundItsDifference: tasks that ran more often than others count for
// more in the difference of the means, and so in the middle of the interval.
func TestAnIntervalIsAroundItsDifference(t *testing.T) {
	var b, c []sample
	for i := range 12 {
		task := string(rune('a' + i))
		for range 1 + 8*(i%2) {
			b, c = append(b, sample{task, 0}), append(c, sample{task, 1 - float64(i%2) + 0.01*float64(i)})
		}
	}
	delta, i := interval(b, c)
	if i.Method != "paired" || math.Abs((*i.Low+*i.High)/2-delta) > 1e-9 {
		t.Errorf("the difference is %v, the interval %s %v to %v", delta, i.Method, *i.Low, *i.High)
	}
}
