//! The web console: static files in memory, under the base path of the server. Its rules are in `console/README.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use flate2::Crc;
use flate2::read::GzDecoder;

use crate::App;
use crate::problem::Problem;

/// The page of the console, and what the server replaces in it.
const INDEX: &str = "index.html";
const BASE: &str = "<base href=\"/\" />";

/// The built console.
#[derive(Clone)]
pub struct Console {
    files: Arc<BTreeMap<String, File>>,
    index: Arc<str>,
}

/// A file, packed.
struct File {
    gzip: Bytes,
    etag: HeaderValue,
}

impl Console {
    /// Files by their path in `console/dist`, each packed with gzip. `None` if the page is not among them.
    pub fn new(files: impl IntoIterator<Item = (String, Cow<'static, [u8]>)>) -> Option<Self> {
        let file = |gzip: Cow<'static, [u8]>| {
            let gzip = match gzip {
                Cow::Borrowed(gzip) => Bytes::from_static(gzip),
                Cow::Owned(gzip) => gzip.into(),
            };
            File { etag: etag(&gzip), gzip }
        };
        let files: BTreeMap<_, _> = files.into_iter().map(|(name, gzip)| (name, file(gzip))).collect();
        let index = String::from_utf8(files.get(INDEX)?.unpacked()?).ok()?.into();
        Some(Self { files: Arc::new(files), index })
    }

    /// The page, for a server under this path.
    pub(crate) fn page(&self, base: &BasePath) -> String {
        self.index.replacen(BASE, &format!("<base href=\"{}/\" />", base.0), 1)
    }

    /// The file at a path. Names are compared, and nothing is opened, so no path leads anywhere else.
    fn file(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let name = path.strip_prefix('/').filter(|name| *name != INDEX)?;
        let file = self.files.get(name)?;
        // The names of assets change with their content.
        let caching = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        let mut answer = unchanged(headers, &file.etag).or_else(|| file.answer(headers))?;
        let fields = answer.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        fields.insert(header::ETAG, file.etag.clone());
        Some(answer)
    }
}

impl File {
    fn unpacked(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn answer(&self, headers: &HeaderMap) -> Option<Response> {
        if has(headers, &header::ACCEPT_ENCODING, "gzip") {
            Some(([(header::CONTENT_ENCODING, "gzip")], self.gzip.clone()).into_response())
        } else {
            Some(self.unpacked()?.into_response())
        }
    }
}

/// Answers what no route has: a file of the console, its page for a browser, or a problem.
pub(crate) fn fallback(app: &App, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response {
    let path = uri.path();
    let is_api = path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if matches!(*method, Method::GET | Method::HEAD) && !is_api {
        if let Some(file) = app.options.console.as_ref().and_then(|console| console.file(path, headers)) {
            return file;
        }
        if has(headers, &header::ACCEPT, "text/html") {
            return page(app, headers);
        }
    }
    Problem::not_found(format!("{path} does not exist: /openapi.json lists all routes")).into_response()
}

/// The page: a browser keeps it, and asks each time whether it has changed.
pub(crate) fn page(app: &App, headers: &HeaderMap) -> Response {
    let etag = etag(app.page.as_bytes());
    let mut answer = unchanged(headers, &etag).unwrap_or_else(|| app.page.clone().into_response());
    let fields = answer.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(INDEX)));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert(header::ETAG, etag);
    answer
}

/// 304, if the caller has this version.
fn unchanged(headers: &HeaderMap, etag: &HeaderValue) -> Option<Response> {
    has(headers, &header::IF_NONE_MATCH, etag.to_str().ok()?).then(|| StatusCode::NOT_MODIFIED.into_response())
}

/// Weak, because the packed and the plain file share it.
fn etag(content: &[u8]) -> HeaderValue {
    let mut checksum = Crc::new();
    checksum.update(content);
    let text = format!("W/\"{:08x}-{:x}\"", checksum.sum(), content.len());
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("W/\"\""))
}

/// Whether a header lists this value. Weights are ignored, except that `q=0` refuses.
fn has(headers: &HeaderMap, name: &header::HeaderName, wanted: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| {
        let (value, weight) = one.split_once(';').unwrap_or((one, ""));
        value.trim().eq_ignore_ascii_case(wanted) && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The path that the whole server is below: empty, or with a slash at its beginning and none at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// Reads `/`, or a path such as `/bus`. It appears in HTML and in cookies, so few characters are allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} must be / or a path such as /bus, of letters, digits, dot, underscore and dash");
        let rest = text.strip_prefix('/').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
        let is_part = |part: &&str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            !matches!(*part, "" | "." | "..") && part.chars().all(allowed)
        };
        match &*parts {
            [""] if rest.is_empty() => Ok(Self::default()),
            all if all.iter().all(is_part) => Ok(Self(format!("/{}", all.join("/")))),
            _ => Err(wrong()),
        }
    }

    /// Empty, or the path without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For cookies: the path, or `/`.
    pub(crate) fn cookie(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    /// The rest of an address below this path.
    pub(crate) fn strip(&self, uri: &Uri) -> Option<Uri> {
        let rest = uri.path().strip_prefix(&self.0)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let path = if rest.is_empty() { "/" } else { rest };
        match uri.query() {
            Some(query) => format!("{path}?{query}").parse().ok(),
            None => path.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_plain() {
        let parse = |text| BasePath::parse(text).map(|base| base.0);
        assert_eq!(parse("/"), Ok(String::new()));
        for text in ["/bus", "/bus/"] {
            assert_eq!(parse(text), Ok("/bus".into()));
        }
        assert_eq!(parse("/a/b.c-d_e"), Ok("/a/b.c-d_e".into()));
        for wrong in ["", "bus", "//", "/a//b", "/..", "/a/../b", "/a b", "/\"><script>", "/a;Path=/", "/bus?x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_below_the_base_path_is_left() {
        let base = BasePath::parse("/bus").expect("a path");
        let strip = |uri: &str| base.strip(&uri.parse().expect("a URI")).map(|uri| uri.to_string());
        assert_eq!(strip("/bus").as_deref(), Some("/"));
        assert_eq!(strip("/bus/api/v1/events?a=b%20c").as_deref(), Some("/api/v1/events?a=b%20c"));
        for outside in ["/", "/busy", "/api/v1/events", "/x/bus"] {
            assert_eq!(strip(outside), None, "{outside}");
        }
    }
}
