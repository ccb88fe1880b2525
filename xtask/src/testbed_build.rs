//! `cargo xtask testbed build`: a real control plane, and operators, from pinned Go modules.
//!
//! ```text
//! testbed/kubernetes-1.35/go.mod ──► go build ──► CACHE/KEY.part-PID/ ──rename──► CACHE/KEY/{etcd,kube-apiserver,...}
//! ```
//!
//! `CACHE` is `$XDG_CACHE_HOME/jobferry/testbed` (or `~/.cache/...`). `KEY` names the product, its version and a hash of
//! everything that decides the binaries, so a changed pin or recipe never finds old ones. A lock file lets two builds
//! of one key wait for each other, and the rename makes a directory appear only when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::Stopwatch;
use crate::testbed_products::{self, MAIN_VERSION, Product};
use crate::workspace;

/// Packages whose variables say which version a binary is. Without them it would call itself v0.0.0 and choose
/// its feature gates and storage versions for that.
const VERSION_PACKAGES: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

const BUILD_FLAGS: [&str; 3] = ["-mod=readonly", "-trimpath", "-buildvcs=false"];

/// What to do where Go is missing.
pub(crate) const INSTALL_GO: &str = "install Go 1.25 or newer (https://go.dev/doc/install) and put `go` on the PATH";

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let product = match options {
        [] => testbed_products::kubernetes(MAIN_VERSION)?,
        ["--version", version] => testbed_products::kubernetes(version)?,
        ["--operator", name] => testbed_products::operator(name)?,
        other => bail!("testbed build takes --version 1.35|1.37 or --operator NAME, not `{}`", other.join(" ")),
    };
    println!("{}", build(product)?.display());
    Ok(())
}

/// Whether `go` can be called at all.
pub(crate) fn go_is_installed() -> bool {
    let probe = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

/// Directory of the binaries and manifests of a product, built now or found in the cache.
pub(crate) fn build(product: Product) -> Result<PathBuf> {
    build_by(&Recipe::read(product)?)
}

fn build_by(recipe: &Recipe) -> Result<PathBuf> {
    let cache = cache_directory()?;
    let finished = cache.join(recipe.key());
    if finished.is_dir() {
        return Ok(finished);
    }
    let what = format!("{} {}", recipe.product.name, recipe.version);
    ensure!(go_is_installed(), "building {what} needs Go: {INSTALL_GO}");
    fs::create_dir_all(&cache).with_context(|| format!("creating the cache {}", cache.display()))?;
    let _lock = lock(&cache.join(format!("{}.lock", recipe.key())))?;
    if finished.is_dir() {
        return Ok(finished); // another build made it while we waited for the lock
    }
    remove_unfinished(&cache, &recipe.key())?;

    let unfinished = cache.join(format!("{}.part-{}", recipe.key(), std::process::id()));
    fs::create_dir(&unfinished).with_context(|| format!("creating {}", unfinished.display()))?;
    let stopwatch = Stopwatch::start();
    eprintln!("Building {what} in {} (some minutes the first time)", finished.display());
    for (step, (package, binary)) in recipe.product.tools.iter().enumerate() {
        eprint!("  [{}/{}] {binary} ... ", step + 1, recipe.product.tools.len());
        let step_time = Stopwatch::start();
        recipe.compile(package, &unfinished.join(binary))?;
        eprintln!("{step_time}");
    }
    recipe.check_version(&unfinished)?;
    recipe.keep_manifests(&unfinished)?;
    fs::rename(&unfinished, &finished).with_context(|| format!("moving the binaries to {}", finished.display()))?;
    remove_unfinished(&cache, &recipe.key())?; // of a killed build whose compiler lived on
    eprintln!("Built {what} in {stopwatch}");
    Ok(finished)
}

/// Everything that decides what the binaries are.
struct Recipe {
    product: Product,
    /// Where its `go.mod` is.
    directory: PathBuf,
    /// Without the `v`: `1.35.8`.
    version: String,
    hash: u64,
}

impl Recipe {
    fn read(product: Product) -> Result<Self> {
        let directory = workspace::root().join("testbed").join(product.directory);
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
        let version = pinned_version(&go_mod, product.module)
            .with_context(|| format!("no `{} vX.Y.Z` in {}/go.mod", product.module, directory.display()))?;
        let mut recipe = Self { product, directory, version, hash: 0 };
        let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let flags = BUILD_FLAGS.join(" ");
        let tools: Vec<String> = product.tools.iter().map(|(package, binary)| format!("{package} {binary}")).collect();
        let (tools, linker_flags) = (tools.join(" "), recipe.linker_flags());
        let mut texts = vec![go_mod.as_str(), &go_sum, &flags, &linker_flags, &tools, &platform];
        texts.extend(product.manifests);
        recipe.hash = fnv1a(&texts);
        Ok(recipe)
    }

    fn key(&self) -> String {
        format!("{}-{}-{:016x}", self.product.name.to_lowercase(), self.version, self.hash)
    }

    fn linker_flags(&self) -> String {
        let mut numbers = self.version.split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let stamps = VERSION_PACKAGES.map(|package| {
            format!(
                "-X {package}.gitVersion=v{} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}",
                self.version
            )
        });
        format!("-s -w {}", stamps.join(" "))
    }

    fn compile(&self, package: &str, binary: &Path) -> Result<()> {
        let status = Command::new("go")
            .arg("build")
            .args(BUILD_FLAGS)
            .args(["-ldflags", &self.linker_flags(), "-o"])
            .arg(binary)
            .arg(package)
            .current_dir(&self.directory)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .stdout(Stdio::null())
            .status()
            .context("running `go build`")?;
        ensure!(status.success(), "`go build {package}` in {} failed ({status})", self.directory.display());
        Ok(())
    }

    /// Copies the manifests from Go's module cache, which others may empty.
    fn keep_manifests(&self, destination: &Path) -> Result<()> {
        if self.product.manifests.is_empty() {
            return Ok(());
        }
        let module = self.product.module;
        let answer = Command::new("go")
            .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module])
            .current_dir(&self.directory)
            .env("GOWORK", "off")
            .output()
            .context("running `go list`")?;
        let source = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
        let complaint = String::from_utf8_lossy(&answer.stderr);
        ensure!(source.is_dir(), "`go list -m {module}` names no directory: {complaint}");
        for path in self.product.manifests {
            copy(&source.join(path), &destination.join(path)).with_context(|| format!("copying {path} of {module}"))?;
        }
        Ok(())
    }

    /// A kube-apiserver says which version it is.
    fn check_version(&self, binaries: &Path) -> Result<()> {
        let kube_apiserver = binaries.join("kube-apiserver");
        if !kube_apiserver.exists() {
            return Ok(());
        }
        let answer = Command::new(kube_apiserver).arg("--version").output().context("running kube-apiserver")?;
        let answer = String::from_utf8_lossy(&answer.stdout);
        let expected = format!("Kubernetes v{}", self.version);
        ensure!(answer.trim() == expected, "kube-apiserver calls itself `{}`, not `{expected}`", answer.trim());
        Ok(())
    }
}

/// The version that a `go.mod` requires of `module`, without its `v`.
fn pinned_version(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()?.strip_prefix('v').map(str::to_owned))?
    })
}

/// A hash that stays the same from one toolchain to the next, unlike the standard library's.
fn fnv1a(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn cache_directory() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: where should the binaries be kept?")?;
    Ok(base.join("jobferry").join("testbed"))
}

/// Held until the file is dropped, also by a process that is killed.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("Waiting for another build of the test bed ({})", path.display());
        file.lock().with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}

/// Copies a file, or a directory with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(to, fs::read(from)?)?; // not its mode: files of the module cache are read-only
    Ok(())
}

/// What interrupted builds of this key left behind. Called with the lock held, so nobody is using it.
fn remove_unfinished(cache: &Path, key: &str) -> Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("reading {}", cache.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&format!("{key}.part-")) {
            fs::remove_dir_all(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed_products::{NEWEST_VERSION, OPERATORS};

    #[test]
    fn the_version_is_the_one_that_go_mod_pins() {
        let block = "require (\n\tk8s.io/kubectl v0.35.8 // indirect\n\tk8s.io/kubernetes v1.35.8 // indirect\n)";
        assert_eq!(pinned_version(block, "k8s.io/kubernetes").as_deref(), Some("1.35.8"));
        assert_eq!(pinned_version("require k8s.io/kubernetes v1.37.1", "k8s.io/kubernetes").as_deref(), Some("1.37.1"));
        assert_eq!(pinned_version("module example.com/x", "k8s.io/kubernetes"), None);
    }

    #[test]
    fn both_test_beds_pin_a_patch_of_the_minor_they_are_named_after() {
        for minor in [MAIN_VERSION, NEWEST_VERSION] {
            let recipe = Recipe::read(testbed_products::kubernetes(minor).unwrap()).unwrap();
            assert!(recipe.version.starts_with(&format!("{minor}.")), "{minor} pins {}", recipe.version);
        }
    }

    #[test]
    fn every_operator_is_pinned() {
        for product in OPERATORS {
            Recipe::read(product).unwrap();
        }
    }

    #[test]
    fn a_change_of_anything_changes_the_key() {
        let key = fnv1a(&["go.mod", "flags"]);
        assert_ne!(key, fnv1a(&["go.mod", "other flags"]));
        assert_ne!(key, fnv1a(&["go.modflags", ""]), "where one text ends matters");
    }

    #[test]
    fn the_linker_stamps_the_true_version() {
        let (directory, version) = (PathBuf::new(), "1.35.8".into());
        let product = testbed_products::kubernetes(MAIN_VERSION).unwrap();
        let recipe = Recipe { product, directory, version, hash: 0 };
        let flags = recipe.linker_flags();
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.35.8"));
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=35"));
    }
}
