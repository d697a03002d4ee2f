module headgate.example/load

go 1.24
