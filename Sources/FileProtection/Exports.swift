// Foundation, passed on: a program imports FileProtection in its place, and members of the same name here win.

// protectfs: plain Foundation: this is where it is passed on.
@_exported public import Foundation
