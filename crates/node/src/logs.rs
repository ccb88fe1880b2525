//! Logs of containers: one file a run, one line an entry, each with its time and stream.
//!
//! The format is that of container runtimes: `<time> <stdout|stderr> <F|P> <text>`; `P` marks a piece of a line that
//! goes on in the next entry.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, stream};
use k8s_openapi::jiff::Timestamp;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    sync::Mutex,
};

use crate::Clock;

/// Longer lines are stored in pieces, so that one line cannot fill the memory.
const LONGEST_PIECE: u64 = 16 * 1024;
/// How often a followed log is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Which part of a log is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only lines of this time or later.
    pub since: Option<Timestamp>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Go on with what is written later, until the container has ended.
    pub follow: bool,
    /// At most this many bytes.
    pub limit_bytes: Option<u64>,
    /// The run before the current one.
    pub previous: bool,
}

/// The log of one run that is being written.
#[derive(Clone)]
pub(crate) struct LogFile {
    path: PathBuf,
    clock: Clock,
}

impl LogFile {
    pub(crate) fn new(path: PathBuf, clock: Clock) -> Self {
        Self { path, clock }
    }

    /// Copies both streams into the file until both have ended.
    pub(crate) async fn write(
        self,
        stdout: Option<impl AsyncRead + Unpin + Send>,
        stderr: Option<impl AsyncRead + Unpin + Send>,
    ) {
        let file = match File::options().create(true).append(true).open(&self.path).await {
            Ok(file) => Arc::new(Mutex::new(file)),
            Err(error) => {
                tracing::error!(path = %self.path.display(), %error, "a log cannot be written");
                return;
            }
        };
        let out = copy_lines(stdout, "stdout", &file, &self.clock);
        let err = copy_lines(stderr, "stderr", &file, &self.clock);
        tokio::join!(out, err);
    }
}

async fn copy_lines(source: Option<impl AsyncRead + Unpin>, stream: &str, file: &Mutex<File>, clock: &Clock) {
    let Some(source) = source else { return };
    let mut source = BufReader::new(source);
    let mut piece = Vec::new();
    loop {
        piece.clear();
        match (&mut source).take(LONGEST_PIECE).read_until(b'\n', &mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let tag = if piece.last() == Some(&b'\n') { "F" } else { "P" };
        let text = piece.strip_suffix(b"\n").unwrap_or(&piece);
        let mut entry = format!("{} {stream} {tag} ", clock()).into_bytes();
        entry.extend_from_slice(text);
        entry.push(b'\n');
        let mut file = file.lock().await;
        if let Err(error) = file.write_all(&entry).await {
            tracing::error!(%error, "a log entry is lost");
        }
        let _ = file.flush().await;
    }
}

/// One entry of a log file.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    time: &'a str,
    whole: bool,
    text: &'a [u8],
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let _stream = parts.next()?;
        let whole = parts.next()? == b"F";
        Some(Self { time, whole, text: parts.next()? })
    }

    fn render(&self, timestamps: bool, continues: bool, out: &mut Vec<u8>) {
        if timestamps && !continues {
            out.extend_from_slice(self.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.text);
        if self.whole {
            out.push(b'\n');
        }
    }

    fn since(&self, since: Option<Timestamp>) -> bool {
        since.is_none_or(|since| self.time.parse::<Timestamp>().is_ok_and(|time| time >= since))
    }
}

/// Reads a log. `ended` says whether the container is over: only then does a followed log end.
pub(crate) async fn read<F: Fn() -> bool + Send + Sync + 'static>(
    path: &Path,
    query: LogQuery,
    ended: F,
) -> io::Result<impl Stream<Item = Bytes> + Send + use<F>> {
    let content = match tokio::fs::read(path).await {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    // A line that is still being written is left for the next look.
    let complete = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let first = select(&content[..complete], &query);
    let limit = query.limit_bytes.unwrap_or(u64::MAX);
    let state = Follow { path: path.to_owned(), offset: complete as u64, limit, query, ended };
    Ok(stream::unfold((Some(first), state), |(first, mut state)| async move {
        let mut chunk = match first {
            Some(chunk) => chunk,
            None => state.next().await?,
        };
        if state.limit == 0 {
            return None;
        }
        chunk.truncate(usize::try_from(state.limit).unwrap_or(usize::MAX));
        state.limit -= chunk.len() as u64;
        Some((Bytes::from(chunk), (None, state)))
    }))
}

struct Follow<F> {
    path: PathBuf,
    offset: u64,
    limit: u64,
    query: LogQuery,
    ended: F,
}

impl<F: Fn() -> bool> Follow<F> {
    /// What was written since the last look; none when nothing can follow.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if !self.query.follow {
            return None;
        }
        self.query.tail_lines = None;
        loop {
            // Asked before reading: what is written before the end is read after it.
            let ended = (self.ended)();
            let content = tokio::fs::read(&self.path).await.unwrap_or_default();
            let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(content.len());
            let end = content.iter().rposition(|byte| *byte == b'\n').map_or(start, |end| (end + 1).max(start));
            if end > start {
                self.offset = end as u64;
                return Some(select(&content[start..end], &self.query));
            }
            if ended {
                return None;
            }
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
}

fn select(content: &[u8], query: &LogQuery) -> Vec<u8> {
    let entries: Vec<Entry<'_>> = content.split(|byte| *byte == b'\n').filter_map(Entry::parse).collect();
    let mut entries = entries.as_slice();
    if let Some(lines) = query.tail_lines {
        let ends = entries.iter().enumerate().filter(|(_, entry)| entry.whole).map(|(at, _)| at + 1);
        // The start of the log, and every place after a whole line, are places where a line begins.
        let begins: Vec<usize> = std::iter::once(0).chain(ends).filter(|at| *at < entries.len()).collect();
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        let from = if lines == 0 {
            entries.len()
        } else {
            begins[begins.len().saturating_sub(lines)..].first().copied().unwrap_or(0)
        };
        entries = &entries[from..];
    }
    let mut out = Vec::new();
    let mut continues = false;
    for entry in entries.iter().filter(|entry| entry.since(query.since)) {
        entry.render(query.timestamps, continues, &mut out);
        continues = !entry.whole;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"1970-01-01T00:00:01Z stdout F one\n1970-01-01T00:00:02Z stderr P tw\n1970-01-01T00:00:02Z stderr F o\n1970-01-01T00:00:03Z stdout F three\n";

    #[test]
    fn parts_of_a_log_are_selected_by_lines_time_and_form() {
        let all = LogQuery::default();
        for (query, expected) in [
            (all.clone(), "one\ntwo\nthree\n"),
            (LogQuery { tail_lines: Some(2), ..all.clone() }, "two\nthree\n"),
            (LogQuery { tail_lines: Some(0), ..all.clone() }, ""),
            (LogQuery { tail_lines: Some(99), ..all.clone() }, "one\ntwo\nthree\n"),
            (LogQuery { since: "1970-01-01T00:00:03Z".parse().ok(), ..all.clone() }, "three\n"),
            (
                LogQuery { timestamps: true, tail_lines: Some(2), ..all },
                "1970-01-01T00:00:02Z two\n1970-01-01T00:00:03Z three\n",
            ),
        ] {
            assert_eq!(String::from_utf8(select(LOG, &query)).unwrap(), expected, "{query:?}");
        }
    }
}
