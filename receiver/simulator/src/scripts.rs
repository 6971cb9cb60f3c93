//! The built-in scripts, `@NAME` on the player's command line: every file of `scripts/`, listed by build.rs.

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// Returns the text of a built-in script.
pub fn find(name: &str) -> Option<&'static str> {
    text_of(SCRIPTS, name)
}

/// Returns the text of a piece that scripts include.
pub(crate) fn piece(name: &str) -> Option<&'static str> {
    text_of(PIECES, name)
}

fn text_of(texts: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    texts.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks;
    use crate::script::parse::parse;

    #[test]
    fn every_script_parses() {
        for (name, text) in SCRIPTS {
            let problem = match ranks::is_ranks(text) {
                true => ranks::parse(text).err().map(|e| e.to_string()),
                false => parse(text).err().map(|e| e.to_string()),
            };
            assert_eq!(problem, None, "@{name}");
        }
        assert!(SCRIPTS.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn every_file_is_a_script_or_a_piece() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        for entry in std::fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = match name.strip_suffix(".script") {
                Some(name) => find(name).is_some(),
                None => piece(name.trim_end_matches(".piece")).is_some(),
            };
            assert!(known, "{name}");
        }
    }
}
