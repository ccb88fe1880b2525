//! The script: requests in the notation of `.http` files.
//!
//! ```text
//! ### title
//! @name = metadata.uid            remember a part of the answer
//! POST /path?with={{name}}        use what was remembered
//! Header: value
//!
//! body
//! ```

use http::Request;

use crate::normal::Memory;

pub(crate) struct Step {
    pub(crate) title: String,
    pub(crate) captures: Vec<(String, String)>,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

pub(crate) fn parse(text: &str) -> Vec<Step> {
    text.split("\n### ").skip(1).map(step).collect()
}

fn step(text: &str) -> Step {
    let mut lines = text.lines();
    let title = lines.next().unwrap().trim().to_owned();
    let mut lines = lines.skip_while(|line| line.is_empty()).peekable();
    let mut captures = Vec::new();
    while let Some(line) = lines.next_if(|line| line.starts_with('@')) {
        let (name, path) = line[1..].split_once('=').unwrap();
        captures.push((name.trim().to_owned(), path.trim().to_owned()));
    }
    let (method, path) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_else(|| panic!("{title}"));
    let mut headers = Vec::new();
    while let Some(line) = lines.next_if(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{title}: {line}"));
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let body = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    Step { title, captures, method: method.to_owned(), path: path.trim().to_owned(), headers, body }
}

impl Step {
    pub(crate) fn request(&self, memory: &Memory) -> Request<kube::client::Body> {
        let mut request = Request::builder().method(self.method.as_str()).uri(memory.fill(&self.path));
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            request = request.header("accept", "application/json");
        }
        if !self.body.is_empty() && !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = memory.fill(&self.body).into_bytes();
        request.body(kube::client::Body::from(body)).unwrap_or_else(|error| panic!("{}: {error}", self.title))
    }
}
