package evidence

import "bytes"

// CaseIntegrity says whether a case is as it was exported (verified, changed or
// unsigned), and what was changed. data is the case as it was read.
func CaseIntegrity(data []byte, c *Case) (integrity, finding string) {
	if len(c.Integrity) == 0 {
		return "unsigned", "it carries no proof"
	}
	v, err := Verify(bytes.NewReader(data), VerifyOptions{})
	switch {
	case err != nil:
		return "changed", err.Error()
	case v.Finding != nil:
		return "changed", v.Finding.Error()
	}
	return "verified", ""
}
