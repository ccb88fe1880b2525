//! `jobferry conformance check`: for authors of external Job controllers. Which of these status writes would a server
//! refuse?

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use job_api::{Errors, FieldError, Rules, SpecView, status};
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::server_version::ServerVersion;

/// A Job is at most 1.5 MiB in etcd; a line holds two statuses and a spec.
const LINE_MAX_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Judge status transitions, one JSON object a line, as an API server would
    Check(Args),
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all lines were judged, 1 with --strict a transition is illegal, 2 a line or file cannot be read."
)]
pub(crate) struct Args {
    /// JSON lines {"id", "spec", "oldStatus", "newStatus"}; - reads standard input. A missing key means unset
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
    /// The API server whose rules apply: 1.32 to 1.37, also with a patch release
    #[arg(long, value_name = "VERSION", default_value = ServerVersion::DEFAULT)]
    server: ServerVersion,
    /// Exit with 1 if any transition is illegal
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(command: &Command) -> ExitCode {
    let Command::Check(args) = command;
    let input: io::Result<Box<dyn Read>> = if args.file.as_os_str() == "-" {
        Ok(Box::new(io::stdin().lock()))
    } else {
        File::open(&args.file).map(|file| -> Box<dyn Read> { Box::new(file) })
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let tally = input.and_then(|input| check(BufReader::new(input), &mut output, args.server.rules()));
    let Tally { legal, illegal, malformed } = match tally {
        Ok(tally) => tally,
        // Whoever reads our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", args.file.display());
            return ExitCode::from(2);
        }
    };
    eprintln!("Kubernetes {}: {legal} legal, {illegal} illegal, {malformed} malformed", args.server);
    match () {
        () if malformed > 0 => ExitCode::from(2),
        () if illegal > 0 && args.strict => ExitCode::from(1),
        () => ExitCode::SUCCESS,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    legal: u64,
    illegal: u64,
    malformed: u64,
}

fn check(mut input: impl BufRead, output: &mut impl Write, rules: Rules) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if input.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let is_cut = line.len() as u64 == LINE_MAX_BYTES && !line.ends_with(b"\n");
        if is_cut {
            input.skip_until(b'\n')?;
        } else if line.trim_ascii().is_empty() {
            continue;
        }
        let judged = if is_cut {
            Err(Malformed { id: Value::Null, why: format!("longer than {LINE_MAX_BYTES} bytes") })
        } else {
            judge(&line, rules)
        };
        let answer = match &judged {
            Ok((id, errors)) => {
                let count = if errors.is_empty() { &mut tally.legal } else { &mut tally.illegal };
                *count += 1;
                Answer::Judged { id, errors: errors.iter().map(Verdict::of).collect() }
            }
            Err(Malformed { id, why }) => {
                tally.malformed += 1;
                Answer::Malformed { id, malformed: format!("line {number}: {why}") }
            }
        };
        serde_json::to_writer(&mut *output, &answer)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(tally)
}

/// One line of output.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Judged { id: &'a Value, errors: Vec<Verdict<'a>> },
    Malformed { id: &'a Value, malformed: String },
}

#[derive(Serialize)]
struct Verdict<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    field: &'a str,
}

impl<'a> Verdict<'a> {
    fn of(error: &'a FieldError) -> Self {
        Self { kind: error.kind.as_str(), field: &error.field }
    }
}

struct Malformed {
    id: Value,
    why: String,
}

/// The parts are read one by one, so that the id is known even when another part is broken.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    old_status: Option<&'a RawValue>,
    #[serde(borrow)]
    new_status: Option<&'a RawValue>,
}

fn judge(line: &[u8], rules: Rules) -> Result<(Value, Errors), Malformed> {
    let line: Line<'_> =
        serde_json::from_slice(line).map_err(|error| Malformed { id: Value::Null, why: error.to_string() })?;
    let malformed = |why| Malformed { id: line.id.clone(), why };
    let spec: JobSpec = part("spec", line.spec).map_err(malformed)?;
    let old: JobStatus = part("oldStatus", line.old_status).map_err(malformed)?;
    let new: JobStatus = part("newStatus", line.new_status).map_err(malformed)?;
    Ok((line.id, status::validate(&SpecView::of(&spec), &old, &new, rules)))
}

fn part<T: DeserializeOwned + Default>(name: &str, json: Option<&RawValue>) -> Result<T, String> {
    let Some(json) = json else { return Ok(T::default()) };
    let mut decoder = serde_json::Deserializer::from_str(json.get());
    let part: Option<T> = serde_path_to_error::deserialize(&mut decoder).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { name.to_owned() } else { format!("{name}.{path}") };
        format!("{field}: {}", error.inner())
    })?;
    Ok(part.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answers(input: &[u8]) -> (Vec<Value>, Tally) {
        let mut output = Vec::new();
        let tally = check(input, &mut output, Rules::for_server(1, 35, None)).unwrap();
        let lines = String::from_utf8(output).unwrap();
        (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), tally)
    }

    #[test]
    fn errors_come_in_the_order_of_the_server_and_missing_keys_mean_unset() {
        let line = br#"{"id": 7, "newStatus": {"active": 1, "conditions": [{"type": "Failed", "status": "True"}]}}"#;
        let (answers, _) = answers(line);
        assert_eq!(
            answers,
            [json!({"id": 7, "errors": [
                {"type": "Invalid", "field": "status.conditions"},
                {"type": "Invalid", "field": "status.active"},
                {"type": "Required", "field": "status.startTime"}]})]
        );
    }

    #[test]
    fn a_malformed_line_is_named_and_the_run_goes_on() {
        let deep = format!(r#"{{"id": "deep", "spec": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
        let input = [
            b"\xff\xfe garbage\n".as_slice(),
            b"\n{\"id\": \"a\", \"newStatus\": {\"active\": \"one\"}}\n",
            b"{\"id\": {\"b\": 1}, \"spec\": {\"completions\": 99999999999}}\n",
            deep.as_bytes(),
            b"\n[]\n{\"id\": \"fine\", \"oldStatus\": null}",
        ]
        .concat();
        let (answers, tally) = answers(&input);
        let text = |index: usize| answers[index]["malformed"].as_str().unwrap_or_default().to_owned();
        assert_eq!(tally, Tally { legal: 1, illegal: 0, malformed: 5 });
        assert!(text(0).starts_with("line 1: "), "{answers:?}");
        assert_eq!(answers[1]["id"], "a");
        assert!(text(1).contains("newStatus.active"), "{answers:?}");
        assert_eq!(answers[2]["id"], json!({"b": 1}));
        assert!(text(2).contains("spec.completions"), "{answers:?}");
        assert!(text(3).contains("spec: invalid type: sequence"), "{answers:?}");
        assert_eq!(answers[5], json!({"id": "fine", "errors": []}));
    }

    #[test]
    fn a_line_without_end_costs_bounded_memory_and_one_answer() {
        let limit = usize::try_from(LINE_MAX_BYTES).unwrap();
        let mut input = vec![b'x'; limit * 3];
        input.extend(b"\n{\"id\": 1}\n");
        let (answers, tally) = answers(&input);
        assert_eq!(tally, Tally { legal: 1, illegal: 0, malformed: 1 });
        assert_eq!(answers[1], json!({"id": 1, "errors": []}));
    }
}
