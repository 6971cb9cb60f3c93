//! The query of a URI.

use percent_encoding::percent_decode_str;

/// Returns the parameters of a query, decoded: `+` and `%20` are spaces. Invalid escapes stay as they are.
pub fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let got: Vec<_> = parameters("a=1&b=x%2Fy+z&&c&d=100%&e=%zz%C3%A4").collect();
        let want = [("a", "1"), ("b", "x/y z"), ("c", ""), ("d", "100%"), ("e", "%zz\u{e4}")];
        assert_eq!(got, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
