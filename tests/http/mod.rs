//! The API on the wire, route by route: each row of the fact sheet.
