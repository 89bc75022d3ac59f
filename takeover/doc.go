// Package takeover has what a node of several does for and with the others: it takes up the
// sessions that another one left ([Queue]), takes over what another one recorded for all
// ([HostNews]), and parts with its own sessions when it is drained ([HandOver]).
//
// When that is due, and which sessions there are, is the runtime's to say.
package takeover
