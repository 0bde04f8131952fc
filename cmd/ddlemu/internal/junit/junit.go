// SPDX-License-Identifier: Apache-2.0

// Package junit writes test results in the XML format of JUnit, which GitLab, Jenkins and others show. There is no
// standard. What it writes satisfies both schemas in common use: the schema of Jenkins' xUnit plugin (junit-10.xsd),
// and the stricter one of Apache Ant's task (https://github.com/windyroad/JUnit-Schema).
package junit

import (
	"encoding/xml"
	"io"
	"os"
	"strconv"
	"time"
)

// Suite is one run.
type Suite struct {
	Name       string
	Package    string // such as ddlemu
	Started    time.Time
	Took       time.Duration
	Properties []Property
	Cases      []Case
	Out        string // what was printed
}

// Property is what a suite was run on or with.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// Case is one test. At most one of Failure, Error and Skipped is set.
type Case struct {
	Class, Name string
	Time        time.Duration
	Failure     *Problem // what was measured is not as it should be
	Error       *Problem // nothing can be said
	Skipped     string   // why it was not run
}

// Problem is a failure or an error.
type Problem struct {
	Type    string // one word
	Message string // one line
	Text    string // the rest
}

// The elements of the format, in the order of the schemas.
type (
	xmlSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []xmlSuite
	}
	xmlSuite struct {
		XMLName    xml.Name   `xml:"testsuite"`
		ID         int        `xml:"id,attr"`
		Package    string     `xml:"package,attr"`
		Name       string     `xml:"name,attr"`
		Timestamp  string     `xml:"timestamp,attr"`
		Hostname   string     `xml:"hostname,attr"`
		Tests      int        `xml:"tests,attr"`
		Failures   int        `xml:"failures,attr"`
		Errors     int        `xml:"errors,attr"`
		Skipped    int        `xml:"skipped,attr"`
		Time       string     `xml:"time,attr"`
		Properties []Property `xml:"properties>property"`
		Cases      []xmlCase
		Out        string `xml:"system-out"`
		Err        string `xml:"system-err"`
	}
	xmlCase struct {
		XMLName xml.Name    `xml:"testcase"`
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Time    string      `xml:"time,attr"`
		Skipped *xmlSkipped `xml:"skipped"`
		Error   *xmlProblem `xml:"error"`
		Failure *xmlProblem `xml:"failure"`
	}
	xmlSkipped struct {
		Message string `xml:"message,attr"`
	}
	xmlProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// Write writes s as a document.
func Write(w io.Writer, s Suite) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	out := xmlSuite{
		Package: s.Package, Name: s.Name, Hostname: host, Tests: len(s.Cases), Out: s.Out,
		Properties: s.Properties,
		// Jenkins' schema allows three decimals, but as many as one likes in a testcase
		Time:      seconds(s.Took.Round(time.Millisecond)),
		Timestamp: s.Started.UTC().Format("2006-01-02T15:04:05"), // without a zone, as Ant's schema wants it
	}
	for _, c := range s.Cases {
		x := xmlCase{Class: c.Class, Name: c.Name, Time: seconds(c.Time)}
		switch {
		case c.Error != nil:
			x.Error = &xmlProblem{c.Error.Message, c.Error.Type, c.Error.Text}
			out.Errors++
		case c.Failure != nil:
			x.Failure = &xmlProblem{c.Failure.Message, c.Failure.Type, c.Failure.Text}
			out.Failures++
		case c.Skipped != "":
			x.Skipped = &xmlSkipped{c.Skipped}
			out.Skipped++
		}
		out.Cases = append(out.Cases, x)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(xmlSuites{Suites: []xmlSuite{out}}); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// seconds is a time as a decimal number: the schemas know no exponents.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}
