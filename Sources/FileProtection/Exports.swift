// Foundation, passed on: a program imports FileProtection in its place, and members of the same name here win.

@_exported public import Foundation
