//! Variables as they cross the boundary: names and values side by side; null unsets.

/// Joins names and values.
pub(crate) fn zip(names: Option<Vec<String>>, values: Option<Vec<Option<String>>>) -> Vec<(String, Option<String>)> {
    names.unwrap_or_default().into_iter().zip(values.unwrap_or_default()).collect()
}
