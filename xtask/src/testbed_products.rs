//! What the test bed is made of: programs of others, each from a Go module that pins it.

use anyhow::{Context, Result};

/// The Kubernetes that everything is tested against by default.
pub(crate) const MAIN_VERSION: &str = "1.35";
/// The newest Kubernetes, added by `cargo xtask test --full`.
pub(crate) const NEWEST_VERSION: &str = "1.37";

/// Something to build, unmodified.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    /// The directory below `testbed` with the `go.mod` that pins it.
    pub(crate) directory: &'static str,
    /// The Go module whose version is the product's.
    pub(crate) module: &'static str,
    /// Go packages and the names of their binaries.
    pub(crate) tools: &'static [(&'static str, &'static str)],
    /// Files and directories of the Go module that are kept beside the binaries: its definitions and webhooks.
    pub(crate) manifests: &'static [&'static str],
}

const KUBERNETES: Product = Product {
    name: "Kubernetes",
    directory: "kubernetes-1.35",
    module: "k8s.io/kubernetes",
    tools: &[
        ("go.etcd.io/etcd/server/v3", "etcd"), // the package is called `server`
        ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        ("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    ],
    manifests: &[],
};

/// Also an opponent of `cargo xtask bench dispatch`.
pub(crate) const KUEUE: Product = Product {
    name: "Kueue",
    directory: "kueue-0.19",
    module: "sigs.k8s.io/kueue",
    tools: &[("sigs.k8s.io/kueue/cmd/kueue", "kueue")],
    manifests: &["config/components/crd/bases", "config/components/webhook/manifests.yaml"],
};

const JOBSET: Product = Product {
    name: "JobSet",
    directory: "jobset-0.12",
    module: "sigs.k8s.io/jobset",
    tools: &[("sigs.k8s.io/jobset", "jobset")],
    manifests: &["config/components/crd/bases", "config/components/webhook/manifests.yaml"],
};

const TRAINING_OPERATOR: Product = Product {
    name: "Training-Operator",
    directory: "operators",
    module: "github.com/kubeflow/training-operator",
    tools: &[("github.com/kubeflow/training-operator/cmd/training-operator.v1", "training-operator")],
    manifests: &["manifests/base/crds", "manifests/base/webhook/manifests.yaml"],
};

const TRAINER: Product = Product {
    name: "Trainer",
    directory: "operators",
    module: "github.com/kubeflow/trainer/v2",
    tools: &[("github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager", "trainer")],
    manifests: &["manifests/base/crds", "manifests/base/webhook/manifests.yaml"],
};

/// The last one that does not look at `managedBy`.
const TRAINER_2_2: Product = Product {
    directory: "trainer-2.2",
    tools: &[("github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager", "trainer-2.2")],
    ..TRAINER
};

const APPWRAPPER: Product = Product {
    name: "AppWrapper",
    directory: "operators",
    module: "github.com/project-codeflare/appwrapper",
    tools: &[("github.com/project-codeflare/appwrapper/cmd", "appwrapper")],
    manifests: &["config/crd/bases"],
};

const MPI_OPERATOR: Product = Product {
    name: "MPI-Operator",
    directory: "operators",
    module: "github.com/kubeflow/mpi-operator",
    tools: &[("github.com/kubeflow/mpi-operator/cmd/mpi-operator", "mpi-operator")],
    manifests: &["manifests/base/kubeflow.org_mpijobs.yaml"],
};

const TEKTON: Product = Product {
    name: "Tekton",
    directory: "operators",
    module: "github.com/tektoncd/pipeline",
    tools: &[("github.com/tektoncd/pipeline/cmd/controller", "tekton")],
    manifests: &["config"],
};

const KUBERAY: Product = Product {
    name: "KubeRay",
    directory: "kuberay-1.6",
    module: "github.com/ray-project/kuberay/ray-operator",
    tools: &[("github.com/ray-project/kuberay/ray-operator", "kuberay")],
    manifests: &["config/crd/bases"],
};

/// The operators that there are. All but the first are for `cargo xtask test --full`.
pub(crate) const OPERATORS: [Product; 9] =
    [JOBSET, TRAINING_OPERATOR, TRAINER, TRAINER_2_2, APPWRAPPER, MPI_OPERATOR, TEKTON, KUBERAY, KUEUE];

/// A control plane of Kubernetes `minor`, such as `1.35`.
pub(crate) fn kubernetes(minor: &str) -> Result<Product> {
    let directory = match minor {
        MAIN_VERSION => "kubernetes-1.35",
        NEWEST_VERSION => "kubernetes-1.37",
        _ => anyhow::bail!(
            "no test bed for Kubernetes {minor}: there are {MAIN_VERSION} (the default) and {NEWEST_VERSION}"
        ),
    };
    Ok(Product { directory, ..KUBERNETES })
}

/// The operator with a binary of that name.
pub(crate) fn operator(binary: &str) -> Result<Product> {
    let found = OPERATORS.into_iter().find(|product| product.tools.iter().any(|(_, name)| *name == binary));
    found.with_context(|| {
        let names: Vec<&str> = OPERATORS.iter().flat_map(|product| product.tools).map(|(_, name)| *name).collect();
        format!("no operator `{binary}`: there are {}", names.join(", "))
    })
}
