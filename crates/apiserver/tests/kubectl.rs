//! The real kubectl over loopback TLS: a transcript of what people type.
//!
//! Skipped, with a line that says so, where there is no kubectl: `JOBFERRY_KUBECTL`, the test bed's or one on PATH.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use jobferry_apiserver::{ApiServer, Credentials, Options, Serving};
use k8s_openapi::jiff::Timestamp;
use tempfile::TempDir;
use tokio::net::TcpListener;

const JOB: &str = r"
apiVersion: batch/v1
kind: Job
metadata: {name: hello, labels: {app: demo}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: 'busybox:1', command: [echo, hi]}]
";

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: boats, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Port, type: string, jsonPath: .spec.port}
    - {name: Afloat, type: string, jsonPath: '.status.conditions[?(@.type=="Afloat")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [port]
            properties:
              port: {type: string, maxLength: 8, description: Where it lies at night.}
              crew: {type: integer, default: 3}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

struct Kubectl {
    program: PathBuf,
    home: TempDir,
    /// Kept running while commands are typed.
    _serving: Serving,
    _runtime: tokio::runtime::Runtime,
}

fn find_kubectl() -> Option<PathBuf> {
    let given = std::env::var_os("JOBFERRY_KUBECTL").map(PathBuf::from);
    let bed = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
        let beds = std::fs::read_dir(cache.join("jobferry/testbed")).ok()?;
        beds.flatten()
            .filter(|bed| bed.file_name().to_string_lossy().starts_with("kubernetes-1.35"))
            .map(|bed| bed.path().join("kubectl"))
            .find(|path| path.is_file())
    };
    let on_path =
        || std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join("kubectl")).find(|path| path.is_file());
    given.or_else(bed).or_else(on_path)
}

impl Kubectl {
    /// A fresh server and a kubectl that knows it, or `None` where there is no kubectl.
    // The one place where the real clock is read: kubectl compares ages with its own.
    #[allow(clippy::disallowed_methods)]
    fn start() -> Option<Self> {
        let Some(program) = find_kubectl() else {
            eprintln!("skipped: no kubectl found; set JOBFERRY_KUBECTL or run `cargo xtask testbed build`");
            return None;
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let credentials = Credentials::generate().unwrap();
        let serving = runtime.block_on(async {
            let server = ApiServer::new(Options::new(Timestamp::now, 7));
            server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), &credentials).unwrap()
        });
        let home = tempfile::tempdir().unwrap();
        let config = credentials.access(serving.address()).kubeconfig("embedded");
        std::fs::write(home.path().join("config"), config).unwrap();
        for (name, text) in [("job.yaml", JOB), ("definition.yaml", DEFINITION)] {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        Some(Self { program, home, _serving: serving, _runtime: runtime })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(line.split_whitespace().map(|word| word.replace('~', " ")))
            .current_dir(self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command line (`~` stands for a space inside of a word); its output and whether it succeeded.
    fn run(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn expect(&self, line: &str, wanted: &str) {
        let (ok, text) = self.run(line);
        assert!(ok && text.contains(wanted), "kubectl {line}\nshould have said: {wanted}\nbut said: {text}");
    }

    fn refuse(&self, line: &str, wanted: &str) {
        let (ok, text) = self.run(line);
        assert!(!ok && text.contains(wanted), "kubectl {line}\nshould have failed with: {wanted}\nbut said: {text}");
    }

    /// The words of a table, line by line, without ages.
    fn table(&self, line: &str) -> Vec<Vec<String>> {
        let (ok, text) = self.run(line);
        assert!(ok, "kubectl {line}: {text}");
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }
}

#[test]
fn jobs_are_created_shown_changed_and_deleted() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("create -f job.yaml", "job.batch/hello created");
    kubectl.refuse("create -f job.yaml", "AlreadyExists");
    let table = kubectl.table("get jobs");
    assert_eq!(table[0], ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]);
    assert_eq!(table[1][..3], ["hello", "Running", "0/1"]);
    assert_eq!(kubectl.table("get jobs -o wide")[0][5..], ["CONTAINERS", "IMAGES", "SELECTOR"]);
    kubectl.expect("get jobs -l app=demo -L app --sort-by=.metadata.name", "demo");
    kubectl.expect("get job hello -o name", "job.batch/hello");
    kubectl.expect("get job hello -o jsonpath={.spec.backoffLimit}", "6");
    kubectl.expect("get job hello -o yaml", "batch.kubernetes.io/controller-uid");
    kubectl.expect("get all", "job.batch/hello");
    kubectl.expect("describe job hello", "Pods Statuses:");
    kubectl.expect("label job hello colour=red", "labeled");
    kubectl.expect("annotate job hello note=it~works", "annotated");
    kubectl.expect(r#"patch job hello -p {"spec":{"suspend":true}}"#, "patched");
    kubectl.expect(r#"patch job hello --type=merge -p {"spec":{"suspend":false}}"#, "patched");
    kubectl
        .expect(r#"patch job hello --type=json -p [{"op":"replace","path":"/spec/suspend","value":true}]"#, "patched");
    kubectl.refuse(r#"patch job hello --type=merge -p {"spec":{"managedBy":"a.b/c"}}"#, "field is immutable");
    kubectl.expect("get job hello -o jsonpath={.metadata.generation}", "4");
    kubectl.expect("delete job hello --cascade=background", "deleted");
    kubectl.refuse("get job hello", r#"jobs.batch "hello" not found"#);
}

#[test]
fn manifests_are_applied_and_differences_shown() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("apply -f job.yaml", "job.batch/hello created");
    kubectl.expect("apply -f job.yaml", "job.batch/hello unchanged");
    let suspended = JOB.replace("spec:\n  template", "spec:\n  suspend: true\n  template");
    std::fs::write(kubectl.home.path().join("suspended.yaml"), suspended).unwrap();
    let (same, difference) = kubectl.run("diff -f suspended.yaml");
    assert!(!same && difference.contains("+  suspend: true"), "{difference}");
    kubectl.expect("apply -f suspended.yaml", "job.batch/hello configured");
    kubectl.expect("get job hello -o jsonpath={.spec.suspend}", "true");
    std::fs::write(
        kubectl.home.path().join("typo.yaml"),
        JOB.replace("template:\n    spec", "tmplate: {}\n  template:\n    spec"),
    )
    .unwrap();
    kubectl.refuse("create -f typo.yaml", r#"unknown field "spec.tmplate""#);
    kubectl.expect("delete -f job.yaml --cascade=background", "deleted");
}

#[test]
fn server_side_apply_creates_changes_and_finds_conflicts() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("apply --server-side -f job.yaml", "job.batch/hello serverside-applied");
    kubectl.expect("apply --server-side -f job.yaml", "job.batch/hello serverside-applied");
    kubectl.expect(r#"patch job hello --type=merge -p {"metadata":{"labels":{"app":"other"}}}"#, "patched");
    kubectl.refuse("apply --server-side -f job.yaml", "conflict with \"kubectl-patch\"");
    kubectl.expect("apply --server-side --force-conflicts -f job.yaml", "serverside-applied");
    kubectl.expect("get job hello -o jsonpath={.metadata.labels.app}", "demo");
    kubectl.expect("get job hello -o yaml --show-managed-fields", "manager: kubectl");
    kubectl.expect("diff --server-side -f job.yaml", "");
}

#[test]
fn typed_commands_that_speak_protobuf_are_understood() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("create ns team", "namespace/team created");
    kubectl.expect("create configmap settings --from-literal=a=b", "configmap/settings created");
    kubectl.expect("create secret generic token --from-literal=t=abc", "secret/token created");
    kubectl.expect("get secret token -o jsonpath={.data.t}", "YWJj");
    kubectl.expect("create serviceaccount runner -n team", "serviceaccount/runner created");
    kubectl.expect("create job once --image=busybox:1 -n team -- echo hi", "job.batch/once created");
    kubectl.expect("get job once -n team -o jsonpath={.spec.template.spec.containers[0].command}", r#"["echo","hi"]"#);
    kubectl.expect("create cronjob nightly --image=busybox:1 --schedule=0~2~*~*~*", "cronjob.batch/nightly created");
    kubectl.expect("get cronjobs", "0 2 * * *");
    kubectl.expect("auth can-i create jobs", "yes");
}

#[test]
fn custom_resources_come_with_their_definition() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("apply -f definition.yaml", "created");
    kubectl.expect("wait --for=condition=established crd/boats.example.com --timeout=10s", "condition met");
    let boat = |port: &str| {
        format!("apiVersion: example.com/v1\nkind: Boat\nmetadata: {{name: ada}}\nspec: {{port: {port}}}\n")
    };
    std::fs::write(kubectl.home.path().join("boat.yaml"), boat("Kiel")).unwrap();
    std::fs::write(kubectl.home.path().join("bad.yaml"), boat("Scharnebeck")).unwrap();
    kubectl.expect("apply -f boat.yaml", "boat.example.com/ada created");
    kubectl.refuse("apply -f bad.yaml", "spec.port");
    kubectl.expect("get boat ada -o jsonpath={.spec.crew}", "3");
    kubectl.expect(
        r#"patch boat ada --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Afloat","status":"True"}]}}"#,
        "patched",
    );
    assert_eq!(kubectl.table("get bt"), [["NAME", "PORT", "AFLOAT"], ["ada", "Kiel", "True"]]);
    kubectl.expect("explain boat.spec", "Where it lies at night.");
    kubectl.expect("delete crd boats.example.com", "deleted");
    kubectl.refuse("get boats", "boats");
}

#[test]
fn discovery_explain_and_raw_paths_answer() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("version", "v1.35");
    kubectl.expect("api-resources", "customresourcedefinitions");
    kubectl.expect("api-versions", "batch/v1");
    kubectl.expect("explain job.spec", "Who runs this Job: kubernetes.io/job-controller");
    kubectl.expect("explain job.spec.template.spec.containers", "imagePullPolicy");
    kubectl.expect("get --raw /readyz", "ok");
    kubectl.expect("get --raw /metrics", "apiserver_request_total");
    kubectl.expect("get events", "No resources found");
    kubectl.refuse("get deployments", "the server doesn't have a resource type");
}

#[test]
fn a_watch_prints_changes_as_they_happen_and_wait_ends() {
    use std::io::{BufRead as _, BufReader};
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.expect("create -f job.yaml", "created");
    let mut watch = kubectl.command("get jobs -w").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("NAME"));
    assert!(lines.next().unwrap().contains("Running"));
    let wait = kubectl.command("wait --for=condition=complete job/hello --timeout=60s").stdout(Stdio::piped()).spawn();
    let done = r#"{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:05Z","succeeded":1,"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}"#;
    kubectl.expect(&format!("patch job hello --subresource=status --type=merge -p {done}"), "patched");
    let last = lines.find(|line| line.contains("Complete")).unwrap();
    assert!(last.contains("1/1") && last.contains("5s"), "{last}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let output = wait.unwrap().wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("condition met"));
}

#[test]
fn strangers_are_refused_except_for_health_and_version() {
    let Some(kubectl) = Kubectl::start() else { return };
    let config = std::fs::read_to_string(kubectl.home.path().join("config")).unwrap();
    let start = config.find("\"token\": \"").unwrap() + "\"token\": \"".len();
    let end = start + config[start..].find('"').unwrap();
    let other = format!("{}wrong{}", &config[..start], &config[end..]);
    std::fs::write(kubectl.home.path().join("config"), other).unwrap();
    kubectl.refuse("get --raw /api/v1/namespaces", "Unauthorized");
    kubectl.expect("get --raw /livez", "ok");
    kubectl.expect("get --raw /version", "v1.35");
}
