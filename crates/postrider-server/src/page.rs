//! The page at `/` of a server without a console: how to get one, and a list of all routes.

use serde_json::Value;

use crate::access::TABLE;
use crate::console::BasePath;

/// Renders the page.
pub(crate) fn render(document: &Value, base: &BasePath) -> String {
    let base = base.as_str();
    let mut rows = String::new();
    for entry in TABLE {
        let method = entry.method.as_str();
        let summary = &document["paths"][entry.path][method.to_ascii_lowercase()]["summary"];
        let roles = entry.roles.map_or_else(
            || "anybody".to_owned(),
            |roles| roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", "),
        );
        rows += &format!(
            "<tr><td><code>{method} {}</code></td><td>{}</td><td>{roles}</td></tr>\n",
            escaped(entry.path),
            escaped(summary.as_str().unwrap_or_default()),
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Postrider</title></head>\n<body>\n\
         <h1>Postrider</h1>\n<p>Events that ride in your transaction.</p>\n\
         <p>This executable was built without the web console. <code>make console</code> builds the console (it needs Node \
         20.19 or newer), and the next <code>cargo build</code> adds it to the executable.</p>\n\
         <p>The API is described by <a href=\"{base}/openapi.json\">openapi.json</a> (OpenAPI 3.1). \
         Is it <a href=\"{base}/livez\">alive</a>? Is it <a href=\"{base}/readyz\">ready</a>?</p>\n\
         <h2>What can be called</h2>\n<table>\n<tr><th>call</th><th>what it does</th><th>who may</th></tr>\n{rows}</table>\n\
         </body>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
