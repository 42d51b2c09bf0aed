// Exports Foundation. A program imports FileProtection instead, and the members of the same name here take precedence.

// protectfs: plain Foundation: this file exports it.
@_exported public import Foundation
