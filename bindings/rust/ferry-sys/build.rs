//! Makes the source of the C interface, and sets the folder in which the linker finds libferry: FERRY_LIBRARY_FOLDER,
//! else the folder from pkg-config, else the linker's default folders.
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In a repository, Python makes the source from the C headers. A package of the crate has the source instead.
fn make_source() {
    let made = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("generated.rs");
    let generator = Path::new("../generate.py");
    if !generator.exists() {
        println!("cargo:rerun-if-changed=generated.rs");
        fs::copy("generated.rs", made).expect("generated.rs can be copied");
        return;
    }
    let sources = ["include/ferry", "tools/describe.py", "docs/c_headers.py", "docs/labels.py", "bindings/rust/generate.py"];
    for source in sources {
        println!("cargo:rerun-if-changed=../../../{source}");
    }
    let status = Command::new("python3").arg("-B").arg(generator).arg(made).status();
    assert!(status.expect("python3 is installed").success(), "generate.py failed");
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=FERRY_LIBRARY_FOLDER");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    make_source();
    if let Ok(folder) = env::var("FERRY_LIBRARY_FOLDER") {
        println!("cargo:rustc-link-search=native={folder}");
    } else if let Ok(output) = Command::new("pkg-config").args(["--libs-only-L", "ferry"]).output() {
        for folder in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            println!("cargo:rustc-link-search=native={}", folder.trim_start_matches("-L"));
        }
    }
    println!("cargo:rustc-link-lib=ferry");
}
