//! Variables at the boundary: names and values as two lists; null unsets.

/// Combines names and values.
pub(crate) fn zip(names: Option<Vec<String>>, values: Option<Vec<Option<String>>>) -> Vec<(String, Option<String>)> {
    names.unwrap_or_default().into_iter().zip(values.unwrap_or_default()).collect()
}
