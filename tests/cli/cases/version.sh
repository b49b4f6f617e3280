inkjet --version
