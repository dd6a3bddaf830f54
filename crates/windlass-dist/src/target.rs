//! The targets that packages are built for, with the names that each kind of package has for them.

/// A target of packages: Linux on one architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PackageTarget {
    #[value(name = "x86_64", alias = "x86_64-unknown-linux-musl")]
    X86_64,
    #[value(name = "aarch64", alias = "aarch64-unknown-linux-musl")]
    Aarch64,
}

impl PackageTarget {
    pub const ALL: [PackageTarget; 2] = [PackageTarget::X86_64, PackageTarget::Aarch64];

    /// Returns the target of this machine, if packages exist for it.
    pub fn host() -> Option<PackageTarget> {
        PackageTarget::ALL.into_iter().find(|target| target.machine() == std::env::consts::ARCH)
    }

    /// The name of the architecture: `uname -m`.
    pub fn machine(self) -> &'static str {
        match self {
            PackageTarget::X86_64 => "x86_64",
            PackageTarget::Aarch64 => "aarch64",
        }
    }

    /// The target of the compiler. Programs that are linked with musl are static and run on every Linux.
    pub fn rust_target(self) -> String {
        format!("{}-unknown-linux-musl", self.machine())
    }

    /// The name of the architecture in Debian and in container images.
    pub fn debian(self) -> &'static str {
        match self {
            PackageTarget::X86_64 => "amd64",
            PackageTarget::Aarch64 => "arm64",
        }
    }

    /// The name of the architecture in npm.
    pub fn node(self) -> &'static str {
        match self {
            PackageTarget::X86_64 => "x64",
            PackageTarget::Aarch64 => "arm64",
        }
    }

    /// The number of the architecture in an ELF file.
    pub fn elf_machine(self) -> u16 {
        match self {
            PackageTarget::X86_64 => 62,
            PackageTarget::Aarch64 => 183,
        }
    }
}
