//! The software driver for tests. The file FERRY_TEST_PROFILE makes its copies take the routes that they take on a GPU.
use ferry::*;

pub fn open() -> Ferry {
    open_with(Options::new(Driver::Software))
}

pub fn open_with(options: Options) -> Ferry {
    let ferry = Ferry::open(options).unwrap();
    if let Ok(file) = std::env::var("FERRY_TEST_PROFILE") {
        ferry.load_profile(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    ferry
}
