from mooring.cli import main

main()
