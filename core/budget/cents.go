// Package budget owns money: exact sums of US cents, prices of models, and the
// limits that a task's and an app's spending is held against. It never charges
// anyone.
package budget

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/shopspring/decimal"
)

// Cents is an exact decimal amount of US cents. Its zero value is 0. It is not
// rounded, ever: 0.1 ten times is 1.
type Cents struct{ d decimal.Decimal }

// maxDigits is how many digits an amount that somebody names may have on each side of
// the point, so that a hostile 1e999999999 can't be expanded. A sum of such amounts has
// a few more; storedDigits is far above what any number of them comes to, so that what
// was logged once can always be read again.
const (
	maxDigits    = 40
	storedDigits = 160
)

// ParseCents reads a JSON number that somebody names.
func ParseCents(s string) (Cents, error) { return parse(s, maxDigits) }

func parse(s string, digits int) (Cents, error) {
	if len(s) > 2*digits+2 {
		return Cents{}, fmt.Errorf("a number of at most %d digits is needed", 2*digits)
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return Cents{}, errors.New("a number is needed")
	}
	e := int(d.Exponent())
	if e < -digits || e > digits || d.NumDigits()+e > digits {
		return Cents{}, fmt.Errorf("a number with at most %d digits on each side of the point is needed", digits)
	}
	return Cents{d}, nil
}

// Whole is n cents.
func Whole(n int64) Cents { return Cents{decimal.NewFromInt(n)} }

// Add returns the exact sum.
func (c Cents) Add(o Cents) Cents { return Cents{c.d.Add(o.d)} }

// Sub returns the exact difference.
func (c Cents) Sub(o Cents) Cents { return Cents{c.d.Sub(o.d)} }

// Cmp is -1, 0 or 1 as c is less than, equal to or more than o.
func (c Cents) Cmp(o Cents) int { return c.d.Cmp(o.d) }

// Sign is -1, 0 or 1.
func (c Cents) Sign() int { return c.d.Sign() }

// IsWhole says whether there is no fraction of a cent.
func (c Cents) IsWhole() bool { return c.d.IsInteger() }

// String is the plain decimal form, without exponent or trailing zeros.
func (c Cents) String() string { return c.d.String() }

// Number is the amount as a JSON number.
func (c Cents) Number() json.Number { return json.Number(c.d.String()) }

// MarshalJSON writes a JSON number.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(c.d.String()), nil }

// UnmarshalJSON reads a JSON number, such as MarshalJSON wrote; a string is refused.
func (c *Cents) UnmarshalJSON(b []byte) error {
	v, err := parse(string(b), storedDigits)
	if err != nil {
		return err
	}
	*c = v
	return nil
}

// Dollars is the amount in dollars, with at least two digits behind the point and
// nothing rounded away.
func (c Cents) Dollars() string {
	d := c.d.Shift(-2)
	if d.Equal(d.Truncate(2)) {
		return d.StringFixed(2)
	}
	return d.String()
}
