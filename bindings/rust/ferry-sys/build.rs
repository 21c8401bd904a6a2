//! Tells the linker where libferry is: in FERRY_LIBRARY_FOLDER, else where pkg-config says, else where it looks anyway.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=FERRY_LIBRARY_FOLDER");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Ok(folder) = env::var("FERRY_LIBRARY_FOLDER") {
        println!("cargo:rustc-link-search=native={folder}");
    } else if let Ok(output) = Command::new("pkg-config").args(["--libs-only-L", "ferry"]).output() {
        for folder in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            println!("cargo:rustc-link-search=native={}", folder.trim_start_matches("-L"));
        }
    }
    println!("cargo:rustc-link-lib=ferry");
}
