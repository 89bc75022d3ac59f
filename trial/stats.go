package trial

import (
	"math"
	"slices"

	"agentd/command"
)

// confidence is that of the intervals that comparisons give.
const confidence = 0.95

// sample is one scored trial of a task.
type sample struct {
	task  string
	value float64
}

// interval is the confidence interval of the difference of two means: paired over
// tasks if both sides ran the same ones, else by Welch. It returns also the
// difference itself, which is that of the means of all trials.
func interval(baseline, candidate []sample) (delta float64, out command.ComparedInterval) {
	b, c := values(baseline), values(candidate)
	delta = mean(c) - mean(b)
	if diffs, ok := pairs(baseline, candidate); ok {
		out = command.ComparedInterval{Method: "paired", Level: confidence, Samples: int64(len(diffs))}
		bound(&out, delta, pairedError(diffs, delta), float64(len(diffs)-1), len(diffs))
		return delta, out
	}
	out = command.ComparedInterval{Method: "welch", Level: confidence, Samples: int64(len(b) + len(c))}
	vb, vc := variance(b)/float64(len(b)), variance(c)/float64(len(c))
	degrees := math.Inf(1)
	if vb+vc > 0 {
		degrees = (vb + vc) * (vb + vc) / (vb*vb/float64(len(b)-1) + vc*vc/float64(len(c)-1))
	}
	bound(&out, delta, math.Sqrt(vb+vc), degrees, min(len(b), len(c)))
	return delta, out
}

// bound fills in the bounds, or why there are none. Least is the smaller number of
// samples.
func bound(out *command.ComparedInterval, center, se, degrees float64, least int) {
	switch {
	case least < 2:
		out.Note = "one sample says nothing about the spread: there are no bounds"
		return
	case se == 0:
		out.Note = "all samples are the same: the bounds say nothing about trials that weren't run"
	}
	half := 0.0
	if se > 0 {
		half = se * tQuantile(0.5+confidence/2, degrees)
	}
	low, high := center-half, center+half
	out.Low, out.High = &low, &high
}

// difference is that of the means of one task, with the task's share of all trials.
type difference struct{ value, share float64 }

// pairs returns the difference for each task, if both sides ran the same tasks, each
// as often as the other, and more than one.
func pairs(baseline, candidate []sample) ([]difference, bool) {
	b, c := byTask(baseline), byTask(candidate)
	if len(b) != len(c) || len(b) < 2 {
		return nil, false
	}
	tasks := make([]string, 0, len(b))
	for task := range b {
		if len(b[task]) != len(c[task]) {
			return nil, false
		}
		tasks = append(tasks, task)
	}
	slices.Sort(tasks)
	diffs := make([]difference, 0, len(tasks))
	for _, task := range tasks {
		diffs = append(diffs, difference{mean(c[task]) - mean(b[task]), float64(len(b[task])) / float64(len(baseline))})
	}
	return diffs, true
}

// pairedError is the standard error of the sum of differences by their shares, which
// is delta. With equal shares it is that of their mean; with others a task that ran
// more often counts for more, as it does in delta.
func pairedError(diffs []difference, delta float64) float64 {
	n, sum := float64(len(diffs)), 0.0
	for _, d := range diffs {
		x := d.share * (d.value - delta)
		sum += x * x
	}
	return math.Sqrt(sum * n / (n - 1))
}

func byTask(list []sample) map[string][]float64 {
	out := map[string][]float64{}
	for _, s := range list {
		out[s.task] = append(out[s.task], s.value)
	}
	return out
}

func values(list []sample) []float64 {
	out := make([]float64, len(list))
	for i, s := range list {
		out[i] = s.value
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// variance is that of a sample; 0 for one of one.
func variance(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return sum / float64(len(v)-1)
}

// tQuantile is the value below which a share p > 0.5 of Student's distribution lies.
func tQuantile(p, degrees float64) float64 {
	low, high := 0.0, 1.0
	for tCDF(high, degrees) < p && high < 1e12 {
		high *= 2
	}
	for range 200 {
		mid := (low + high) / 2
		if tCDF(mid, degrees) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// tCDF is the distribution function of Student's t for t >= 0.
func tCDF(t, degrees float64) float64 {
	if math.IsInf(degrees, 1) || degrees > 1e7 {
		return 0.5 * math.Erfc(-t/math.Sqrt2)
	}
	x := degrees / (degrees + t*t)
	return 1 - betaRegularized(x, degrees/2, 0.5)/2
}

// betaRegularized is the regularized incomplete beta function, by its continued
// fraction, which converges quickly where x is below the mean of the distribution.
func betaRegularized(x, a, b float64) float64 {
	if x <= 0 || x >= 1 {
		return min(max(x, 0), 1)
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaRegularized(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front * betaFraction(x, a, b)
}

// betaFraction evaluates the continued fraction from the front, keeping the ratio
// of its convergents away from zero.
func betaFraction(x, a, b float64) float64 {
	const tiny, exact = 1e-300, 1e-15
	guard := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/guard(1-(a+b)*x/(a+1))
	out := d
	for m := 1.0; m < 10_000; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d, c = 1/guard(1+even*d), guard(1+even/c)
		out *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d, c = 1/guard(1+odd*d), guard(1+odd/c)
		step := d * c
		out *= step
		if math.Abs(step-1) < exact {
			break
		}
	}
	return out
}
