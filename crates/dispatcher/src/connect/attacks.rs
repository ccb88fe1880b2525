//! Kubeconfigs that want to hurt us. Whoever can write a Worker's Secret must not thereby run programs, read files or send
//! requests as the dispatcher.

use std::{io::ErrorKind, net::TcpListener};

use serde_json::{Value, json};

use super::reach;

/// A trap for everything that a kubeconfig could make us do.
struct Trap {
    directory: tempfile::TempDir,
    listener: TcpListener,
}

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { directory: tempfile::tempdir().unwrap(), listener }
    }

    /// A file that exists once somebody ran our program.
    fn marker(&self) -> String {
        self.directory.path().join("executed").display().to_string()
    }

    fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    fn is_untouched(&self) -> bool {
        let dialled = self.listener.accept().map_err(|error| error.kind());
        std::fs::metadata(self.marker()).is_err() && matches!(dialled, Err(ErrorKind::WouldBlock))
    }

    /// A harmless kubeconfig, but for the trap that it leads to.
    fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {
                "server": format!("https://{}", self.address()), "certificate-authority-data": "Q0E=",
            }}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        })
    }

    /// What is put where, and the words by which it is refused.
    fn edits(&self) -> Vec<(&'static str, &'static str, Value, &'static str)> {
        let (user, cluster, context) = ("/users/0/user", "/clusters/0/cluster", "/contexts/0/context");
        let command =
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [self.marker()]});
        let provider = json!({"name": "gcp", "config": {"cmd-path": "touch", "cmd-args": self.marker()}});
        let proxy = |scheme: &str| json!(format!("{scheme}://{}", self.address()));
        let second_user = json!([{"name": "u", "user": {"token": "a"}}, {"name": "u", "user": {"exec": command}}]);
        vec![
            (user, "exec", command.clone(), "`user.exec` is not allowed: it would run a program"),
            (user, "exec", Value::Null, "`user.exec` is not allowed"),
            (user, "auth-provider", provider, "`user.auth-provider` is not allowed: it may run a program"),
            (user, "tokenFile", json!("/proc/self/environ"), "`user.tokenFile` is not allowed: it would read a file"),
            (user, "client-certificate", json!("/etc/passwd"), "`user.client-certificate` is not allowed"),
            (user, "client-key", json!("/proc/self/mem"), "`user.client-key` is not allowed"),
            (user, "client-key-data", json!("S0VZ"), "`user.token` is not allowed: a token and a client certificate"),
            (user, "username", json!("admin"), "`user.username` is not allowed: basic authentication"),
            (user, "password", json!("admin"), "`user.password` is not allowed: basic authentication"),
            (user, "as", json!("system:admin"), "`user.as` is not allowed: impersonation"),
            (user, "as-groups", json!(["system:masters"]), "`user.as-groups` is not allowed: impersonation"),
            (user, "as-user-extra", json!({}), "`user.as-user-extra` is not allowed: impersonation"),
            (user, "token", json!("a\r\nImpersonate-User: admin"), "`user.token` is not allowed"),
            (user, "token", json!(["secret"]), "`user.token` is missing or has the wrong type"),
            (user, "something-new", json!(1), "`user.something-new` is not allowed"),
            (cluster, "proxy-url", proxy("http"), "`cluster.proxy-url` is not allowed: it would send the credentials"),
            (cluster, "proxy-url", proxy("socks5"), "`cluster.proxy-url` is not allowed"),
            (cluster, "insecure-skip-tls-verify", json!(true), "`cluster.insecure-skip-tls-verify` is not allowed"),
            (cluster, "certificate-authority", json!("/etc/shadow"), "`cluster.certificate-authority` is not allowed"),
            (cluster, "certificate-authority-data", json!(""), "`cluster.certificate-authority-data` is missing"),
            (cluster, "disable-compression", json!(true), "`cluster.disable-compression` is not allowed"),
            (cluster, "server", proxy("http"), "only https servers are dialled"),
            (cluster, "server", proxy("file"), "only https servers are dialled"),
            (cluster, "server", json!("https://a@169.254.169.254"), "`cluster.server` is not allowed"),
            (cluster, "server", json!("https://169.254.169.254/latest"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://[::ffff:169.254.169.254]"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://[64:ff9b::a9fe:a9fe]"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://[fe90::1]:6443"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://2852039166"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://0xa9fea9fe"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://0251.0376.0251.0376"), "link-local addresses are not dialled"),
            (cluster, "server", json!("https://2130706433"), "write https://host:port"),
            (cluster, "server", json!("https://host/?x=y"), "write https://host:port"),
            (cluster, "tls-server-name", json!({}), "`cluster.tls-server-name` is missing or has the wrong type"),
            (context, "extensions", json!([]), "`context.extensions` is not allowed"),
            (context, "user", json!("other"), "there is no user named `other`"),
            ("/users/0", "exec", command.clone(), "`users.exec` is not allowed"),
            ("", "users", second_user, "two entries have the same name"),
            ("", "users", json!({"u": {}}), "`users` is missing or has the wrong type"),
            ("", "current-context", Value::Null, "`current-context` is missing"),
            ("", "kind", json!("ExecCredential"), "`kind` is not allowed"),
            ("", "plugins", json!([command]), "`plugins` is not allowed"),
        ]
    }
}

async fn refusal(kubeconfig: &[u8]) -> String {
    let outcome = reach(kubeconfig).await.map(drop).map_err(|error| error.to_string());
    outcome.err().unwrap_or_else(|| "it was accepted".into())
}

#[tokio::test]
async fn hostile_kubeconfigs_are_refused_and_nothing_is_run_read_or_dialled() {
    let trap = Trap::set();
    for (pointer, key, value, words) in trap.edits() {
        let mut kubeconfig = trap.kubeconfig();
        kubeconfig.pointer_mut(pointer).unwrap()[key] = value.clone();
        let refusal = refusal(kubeconfig.to_string().as_bytes()).await;
        assert!(refusal.contains(words), "{pointer}/{key} = {value}: {refusal}");
        assert!(trap.is_untouched(), "{pointer}/{key} = {value}");
    }
}

#[tokio::test]
async fn among_several_contexts_none_is_chosen_for_the_user() {
    let trap = Trap::set();
    for current in [None, Some(Value::Null), Some(json!(""))] {
        let mut kubeconfig = trap.kubeconfig();
        kubeconfig["contexts"] =
            json!(["c", "d"].map(|name| json!({"name": name, "context": {"cluster": "k", "user": "u"}})));
        match &current {
            Some(value) => kubeconfig["current-context"] = value.clone(),
            None => drop(kubeconfig.as_object_mut().unwrap().remove("current-context")),
        }
        let refusal = refusal(kubeconfig.to_string().as_bytes()).await;
        assert!(refusal.contains("`current-context` is missing or has the wrong type"), "{current:?}: {refusal}");
        assert!(trap.is_untouched(), "{current:?}");
    }
}

#[tokio::test]
async fn what_is_not_even_a_kubeconfig_is_refused_in_time_and_space() {
    let bomb = (0..40).map(|n| format!("k{}: &k{} [*k{n}, *k{n}, *k{n}]\n", n + 1, n + 1));
    let bomb = format!("k0: &k0 [x]\n{}", bomb.collect::<String>());
    let deep = "[".repeat(100_000);
    for (text, what, words) in [
        (b"\xff\xfe".as_slice(), "no text", "invalid utf-8"),
        (b"", "nothing", "`kubeconfig` is missing or has the wrong type"),
        (b"- 1\n- 2\n", "a list", "`kubeconfig` is missing or has the wrong type"),
        (b"a: 1\n---\nb: 2\n", "two documents", "multiple YAML documents"),
        (b"a: *unknown\n", "an alias of nothing", "unknown anchor"),
        (bomb.as_bytes(), "a billion laughs", "budget breached"),
        (deep.as_bytes(), "a deep hole", "recursion limit exceeded"),
    ] {
        let refusal = refusal(text).await;
        assert!(refusal.contains(words), "{what}: {refusal}");
    }
}

#[tokio::test]
async fn why_a_kubeconfig_is_refused_does_not_quote_it() {
    for broken in
        ["token: secret\n  bad: [", "token: secret\ntoken: *unknown", "token: secret\n---\na: 1", "token: \"secret"]
    {
        let refusal = refusal(broken.as_bytes()).await;
        assert!(refusal.contains("line") && !refusal.contains("secret"), "{broken:?}: {refusal}");
    }
}
