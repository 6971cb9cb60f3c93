//! HTML building blocks of the pages: one style, tables, and escaped text.

use std::fmt;
use std::time::SystemTime;

use super::{ROUTES, VARS};

/// The style sheet. It refers to no script, font or image, so that pages work without a network.
const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--ok:#1a7f4b;--warn:#9a6700;--bad:#c62828}\
@media(prefers-color-scheme:dark){:root{--ok:#4cc38a;--warn:#d9a441;--bad:#ff7b72}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:0 auto;padding:1rem}\
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding-bottom:.6rem;border-bottom:1px solid var(--line)}\
nav b,nav a{text-decoration:none}h1{font-size:1.4rem;margin:1rem 0}h2{font-size:1.1rem;margin:1.5rem 0 .5rem}\
table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.25rem .9rem .25rem 0;\
border-bottom:1px solid var(--line)}.num td+td,.num th+th{text-align:right}\
code{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}\
.ok{color:var(--ok)}.warn{color:var(--warn)}.bad{color:var(--bad)}.dim{opacity:.7}\
.row{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem}.stack{display:grid;gap:.4rem}\
.box{border:1px solid var(--line);border-left:4px solid;border-radius:4px;padding:.3rem .7rem;max-width:22rem}\
.box span{color:CanvasText}.box small{display:block}";

/// A text that is escaped when displayed.
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// A text that is percent-encoded for a query when displayed.
pub(super) struct Encoded<'a>(pub(super) &'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => {
                    fmt::Write::write_char(f, char::from(byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// Formats a time for a reader, with milliseconds: `2026-01-02 03:04:05.006 UTC`.
pub(super) fn readable(at: SystemTime) -> String {
    go_format::iso8601_millis(at).replace('T', " ").replace('Z', " UTC")
}

/// Returns a whole page around `body`.
pub(super) fn page(title: &str, path: &str, has_vars: bool, body: &str) -> String {
    let vars = has_vars.then_some((VARS, "Variables"));
    let links = ROUTES.iter().map(|(to, name, _)| (*to, *name)).chain(vars);
    let link = |(to, name): (&str, &str)| match to == path {
        true => format!("<b>{name}</b>"),
        false => format!("<a href=\"{to}\">{name}</a>"),
    };
    let nav: String = links.map(link).collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title} - warptap</title>\
         <style>{STYLE}</style></head><body><nav>{nav}</nav><h1>{title}</h1>{body}</body></html>\n"
    )
}

/// Returns a table whose cells are HTML.
pub(super) fn table(class: &str, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let cells = |row: Vec<String>| row.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>();
    let heads: String = heads.iter().map(|head| format!("<th>{}</th>", Text(head))).collect();
    let rows: String = rows.into_iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    format!("<table class=\"{class}\"><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table>")
}

/// Returns a table of names and values.
pub(super) fn properties(rows: &[(&str, String)]) -> String {
    let rows = rows.iter().map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", Text(value)));
    format!("<table>{}</table>", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_text_is_escaped() {
        assert_eq!(Text("<b a=\"x\">'&").to_string(), "&lt;b a=&quot;x&quot;&gt;&#39;&amp;");
        assert_eq!(Encoded("receiver/a b&c=ä").to_string(), "receiver/a%20b%26c%3D%C3%A4");
        assert!(properties(&[("a", "<x>".to_owned())]).contains("<td>&lt;x&gt;</td>"));
    }
}
