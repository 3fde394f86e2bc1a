//! Producers, observers and deleters at once; a checker judges the recorded history.
